"""G4: what is read as a group's position is what one of its owners committed, and nothing newer is forgotten.

Every commit carries a number of its own in its metadata, so that whoever reads a position knows whose it is.  A
commit is stale when its member knows, or must hear, that the partition is not its own: it counts never.
"""

from __future__ import annotations

from math import inf

from barnabas.errors import ErrorCode
from barnabas.model import TopicId
from barnabas.sim.cluster.history import Outcome
from barnabas.sim.kernel.report import InvariantViolation

__all__ = ["LATE", "NOTHING", "Commit", "Place", "Positions"]

Place = tuple[TopicId, int]

LATE = 20.0
"""Seconds for which a request that nobody answered may still arrive."""
NOTHING = -1
"""The number of what no commit was made of: the state before the first, and that after a deletion."""


class Commit:
    """One commit of one position, or its deletion.  Times are seconds of virtual time."""

    __slots__ = ("answered", "epoch", "member", "number", "outcome", "sent", "stale")

    def __init__(self, number: int, member: str, epoch: int, sent: float, *, stale: bool = False) -> None:
        self.number = number
        self.member = member
        self.epoch = epoch
        self.sent = sent
        self.stale = stale
        self.answered = inf
        self.outcome = Outcome.UNKNOWN

    @property
    def over(self) -> float:
        """From when on it does not happen any more, unless it has."""
        return self.answered if self.outcome is Outcome.OK else self.sent + LATE

    def __repr__(self) -> str:
        what = "stale " * self.stale + self.outcome.name
        return f"<Commit {self.number} by {self.member} in epoch {self.epoch} at {self.sent:.3f}, {what}>"


class Positions:
    """The positions of one group."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.commits: dict[Place, list[Commit]] = {}
        self.numbers = 0
        self.reads = 0

    def sent(self, place: Place, member: str, epoch: int, now: float, *, stale: bool) -> Commit:
        """A member is about to commit; `stale`: it must be refused."""
        self.numbers += 1
        commit = Commit(self.numbers, member, epoch, now, stale=stale)
        self.commits.setdefault(place, []).append(commit)
        return commit

    def deleting(self, place: Place, now: float) -> Commit:
        """An administrator is about to delete a position."""
        deletion = Commit(NOTHING, "the administrator", -1, now)
        self.commits.setdefault(place, []).append(deletion)
        return deletion

    def answered(self, commit: Commit, code: ErrorCode, now: float) -> None:
        """What the coordinator said.  Raises InvariantViolation when it took what is stale."""
        if code is ErrorCode.NONE:
            commit.outcome, commit.answered = Outcome.OK, now
            if commit.stale:
                raise InvariantViolation("G4", f"group {self.group_id}: {commit} was not refused")
        elif code.definite:
            commit.outcome, commit.answered = Outcome.FAILED, now

    def read(self, place: Place, number: int, since: float, reader: str) -> None:
        """Somebody reads the position, which must have everything that was acknowledged before `since`.

        Raises InvariantViolation.
        """
        self.reads += 1
        known = self.commits.get(place, [])
        first = Commit(NOTHING, "nobody", -1, -inf)
        first.outcome, first.answered = Outcome.OK, -inf
        found = [one for one in (first, *known) if one.number == number]
        may = [one for one in found if one.outcome is not Outcome.FAILED and not one.stale]
        if not may:
            raise InvariantViolation(
                "G4", f"{self._of(place)}: {reader} reads {number}, of {found or 'nobody'}"
            )
        done = [one for one in known if one.outcome is Outcome.OK and one.answered < since]
        for one in may:
            if not any(later.sent > one.over for later in done):
                return
        lost = max(done, key=lambda one: one.sent)
        raise InvariantViolation("G4", f"{self._of(place)}: {reader} reads {number} of {may}, not {lost}")

    def _of(self, place: Place) -> str:
        return f"group {self.group_id}, {place[0]}-{place[1]}"

    @property
    def refused(self) -> int:
        """How many stale commits were refused."""
        return sum(
            one.stale and one.outcome is Outcome.FAILED for known in self.commits.values() for one in known
        )

    def __repr__(self) -> str:
        return f"<Positions of {self.group_id}: {self.numbers} commits, {self.reads} reads>"
