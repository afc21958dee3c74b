"""G6: in one epoch, or generation, of a group a partition has one owner, whichever protocol its members speak.

A member of the classic protocol learns late that its generation is over, so that two members may think for a while
that they own a partition; but not in one generation, and only the commits of the later one count.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.sim.cluster.clients.groups.positions import Place
from barnabas.sim.kernel.report import InvariantViolation

__all__ = ["Epochs"]


class _Told(NamedTuple):
    """`until`: when the session of the member is over, in seconds, if it does not hear of its group until then."""

    epoch: int
    until: float


class Epochs:
    """Who was told that it owns what, and in which epoch.  Times are seconds of virtual time.

    What a member was told counts while its session lasts: a group that nobody is in may begin anew with epoch 1.
    """

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self._told: dict[Place, dict[str, _Told]] = {}

    def told(self, member: str, place: Place, epoch: int, now: float, until: float) -> None:
        """An answer says that a member owns a partition in an epoch.

        Raises InvariantViolation when another one was told so, and may still think it.
        """
        told = self._told.setdefault(place, {})
        for other, one in told.items():
            if other != member and one.epoch == epoch and one.until > now:
                raise InvariantViolation(
                    "G6",
                    f"group {self.group_id}: {member} and {other} own {place[0]}-{place[1]} in epoch {epoch}",
                )
        told[member] = _Told(epoch, until)

    def has_later(self, member: str, place: Place, epoch: int, now: float) -> bool:
        """Whether another member was told that it owns a partition in a later epoch than this one."""
        told = self._told.get(place, {})
        return any(other != member and one.epoch > epoch and one.until > now for other, one in told.items())

    def given_up(self, member: str, place: Place) -> None:
        """A member does not read from a partition any more."""
        self._told.get(place, {}).pop(member, None)

    def gone(self, member: str) -> None:
        """A member left, or learned that it is out."""
        for told in self._told.values():
            told.pop(member, None)

    def __repr__(self) -> str:
        return f"<Epochs of {self.group_id}: {sum(map(len, self._told.values()))}>"
