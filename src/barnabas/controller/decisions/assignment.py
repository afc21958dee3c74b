"""Which replicas a partition has, and which of them come and go: a reassignment as a value (KIP-455).

While replicas move, the partition has the wanted ones followed by those that are to leave.  It is finished
when the in-sync set holds every replica that was added, and somebody besides those that leave; where the
partition ends with fewer replicas than before, all that stay have to be in it.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.controller.image import PartitionState
from barnabas.model import NodeId

__all__ = ["Assignment"]


class Assignment(NamedTuple):
    """Replicas in order of preference; `adding` and `removing` are among them."""

    replicas: tuple[NodeId, ...]
    adding: tuple[NodeId, ...] = ()
    removing: tuple[NodeId, ...] = ()

    @classmethod
    def of(cls, state: PartitionState) -> Assignment:
        """The one in force."""
        return cls(state.replicas, state.adding, state.removing)

    @classmethod
    def towards(cls, state: PartitionState, target: tuple[NodeId, ...]) -> Assignment:
        """The one that leads from the present replicas, all of them, to `target`."""
        removing = tuple(sorted(set(state.replicas) - set(target)))
        adding = tuple(sorted(set(target) - set(state.replicas)))
        return cls((*target, *removing), adding, removing)

    @property
    def moving(self) -> bool:
        """Whether replicas come or go."""
        return bool(self.adding or self.removing)

    def finished(self, isr: tuple[NodeId, ...]) -> tuple[Assignment, tuple[NodeId, ...]]:
        """The assignment and the ISR once nothing moves any more; both as they are if it is too early."""
        staying = tuple(broker for broker in isr if broker not in self.removing)
        target = self.target()
        needed = target if len(self.adding) < len(self.removing) else self.adding
        if not self.moving or not staying or not set(needed) <= set(staying):
            return self, isr
        return Assignment(target), staying

    def target(self) -> tuple[NodeId, ...]:
        """The replicas there will be when it is finished."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)

    def original(self) -> tuple[NodeId, ...]:
        """The replicas without those that were being added."""
        return tuple(broker for broker in self.replicas if broker not in self.adding)
