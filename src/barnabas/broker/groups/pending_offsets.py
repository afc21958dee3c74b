"""Positions that were committed in transactions, and count when their transaction does (KIP-98, KIP-447).

A producer may have some in several groups.  The marker in the partition of `__consumer_offsets` decides all that
it has there.  A position that is committed outside of the transaction meanwhile is newer, and stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from barnabas.broker.groups.records import CommittedOffset
from barnabas.model import ProducerId

__all__ = ["PendingOffsets"]

Position = tuple[str, int]


class PendingOffsets:
    """The undecided positions of all groups of this node."""

    __slots__ = ("_groups", "_kept", "_producers")

    def __init__(self) -> None:
        self._kept: dict[tuple[str, ProducerId], dict[Position, CommittedOffset | None]] = {}
        """By group and producer; None: a newer one was committed."""
        self._groups: dict[tuple[int, ProducerId], dict[str, None]] = {}
        """By partition of __consumer_offsets and producer."""
        self._producers: dict[str, dict[Position, dict[ProducerId, None]]] = {}
        """By group and position."""

    def __len__(self) -> int:
        return sum(len(positions) for positions in self._producers.values())

    def __repr__(self) -> str:
        return f"<PendingOffsets {len(self)} of {len(self._producers)} groups>"

    def add(
        self, index: int, producer_id: ProducerId, group_id: str, kept: Mapping[Position, CommittedOffset]
    ) -> None:
        """A producer committed these in its transaction; they lie in partition `index`."""
        self._groups.setdefault((index, producer_id), {})[group_id] = None
        self._kept.setdefault((group_id, producer_id), {}).update(kept)
        positions = self._producers.setdefault(group_id, {})
        for position in kept:
            positions.setdefault(position, {})[producer_id] = None

    def of_group(self, group_id: str) -> Iterable[Position]:
        """The positions of a group that a transaction may change."""
        return self._producers.get(group_id, {}).keys()

    def of_topic(self, name: str) -> dict[str, list[Position]]:
        """The positions in a topic that a transaction may change, by group."""
        found = {
            group_id: [position for position in positions if position[0] == name]
            for group_id, positions in self._producers.items()
        }
        return {group_id: positions for group_id, positions in found.items() if positions}

    def superseded(self, group_id: str, positions: Iterable[Position]) -> None:
        """These were committed outside of a transaction, later than what is pending."""
        known = self._producers.get(group_id, {})
        for position in positions:
            for producer_id in known.get(position, ()):
                self._kept[group_id, producer_id][position] = None

    def drop(self, group_id: str, positions: Iterable[Position]) -> None:
        """These were forgotten: no transaction brings them back."""
        known = self._producers.get(group_id, {})
        for position in [position for position in positions if position in known]:
            for producer_id in list(known[position]):
                del self._kept[group_id, producer_id][position]
                self._settled(group_id, position, producer_id)

    def end(self, index: int, producer_id: ProducerId) -> dict[str, dict[Position, CommittedOffset]]:
        """A producer's transaction ended in partition `index`: what it had committed there, by group."""
        ended = {}
        for group_id in self._groups.pop((index, producer_id), ()):
            kept = self._kept.pop((group_id, producer_id))
            for position in kept:
                self._settled(group_id, position, producer_id)
            ended[group_id] = {position: one for position, one in kept.items() if one is not None}
        return ended

    def _settled(self, group_id: str, position: Position, producer_id: ProducerId) -> None:
        positions = self._producers[group_id]
        del positions[position][producer_id]
        if not positions[position]:
            del positions[position]
            if not positions:
                del self._producers[group_id]

    def unload(self, index: int) -> None:
        """This node coordinates the groups of a partition no longer."""
        for place, producer_id in [key for key in self._groups if key[0] == index]:
            self.end(place, producer_id)
