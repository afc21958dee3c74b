"""Mutants, each the replacement of one function: the invariants must notice every one.

`KNOWN` says on which seed of `raft_chaos` the alarm went off last (found by trying them in order).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from barnabas.raft import core, election, following, leadership, log_view
from barnabas.raft.membership import pending, steps, target
from barnabas.raft.roles import Follower, Leader

Mutant = Callable[[], tuple[object, str, object]]


def counts_its_own_unsynced_end() -> tuple[object, str, object]:
    """The leader takes what it has only written for what it has on disk."""
    return log_view.LogView, "persisted", property(lambda self: self.end_offset, lambda self, value: None)


def claims_before_it_is_on_disk() -> tuple[object, str, object]:
    """A follower fetches on while its disk is still busy."""

    def drive(node: core.Core, role: Follower, now: Any) -> None:
        real, node.log_view.persisted = node.log_view.persisted, node.log_view.end_offset
        _FOLLOW(node, role, now)
        node.log_view.persisted = real

    return following, "drive", drive


def answers_before_it_saved() -> tuple[object, str, object]:
    """Votes and epochs leave before they are durable."""
    return core.Core, "unsaved", property(lambda self: False)


def votes_for_anybody() -> tuple[object, str, object]:
    """A vote is given to whoever asks first, however short its log."""

    def grants(node: core.Core, request: Any, now: Any) -> bool:
        role = node.role
        return not isinstance(role, (Leader, Follower)) and getattr(role, "voted", None) in (
            None,
            request.candidate,
        )

    return election, "_grants", grants


def votes_twice() -> tuple[object, str, object]:
    """The vote is given but not remembered."""
    return election, "_remember_vote", lambda node, candidate, now: None


def changes_before_its_epoch_has_committed() -> tuple[object, str, object]:
    """The single-server bug: a new leader changes the set while an older change may still come true."""
    return steps, "guards", lambda node: None


def changes_two_at_a_time() -> tuple[object, str, object]:
    """The next change does not wait for the last one."""
    return steps, "open_change", lambda node: None


def keeps_the_voters_it_should_take_back() -> tuple[object, str, object]:
    """A truncation leaves the voter set as it was."""
    return log_view.History, "truncate", lambda self, end_offset: False


def counts_a_leader_that_is_no_voter() -> tuple[object, str, object]:
    """The high watermark counts one replica less than a majority."""

    def advance(node: core.Core, role: Leader) -> None:
        ends = sorted((p.end_offset or 0 for p in role.voters.values()), reverse=True)
        if not node.unsaved and not node.voters.has(node.key) and ends and ends[0] > role.epoch_start:
            node.commit(ends[0])
        _ADVANCE(node, role)

    return leadership, "_advance", advance


def lets_in_who_is_somewhere_else() -> tuple[object, str, object]:
    """Two members change at once on the way to a target."""

    def append_voters(node: core.Core, role: Leader, voters: Any, *more: Any) -> int:
        members = target.target_of(node)
        if members is not None and node.voters.keys != tuple(m.key for m in members):
            wanted = [steps.Voter(m.key, m.endpoints) for m in members]
            voters = steps.VoterSet.of(wanted)
        return leadership.append(node, role, (*more, steps.VotersEntry(voters))) + len(more)

    return steps, "_append_voters", append_voters


def truncates_what_is_committed() -> tuple[object, str, object]:
    """A follower cuts one batch more than it has to."""

    def divergence(self: log_view.LogView, leader: Any) -> int:
        return max(self.log_start, _DIVERGE(self, leader) - 1)

    return log_view.LogView, "divergence", divergence


def takes_half_for_a_majority() -> tuple[object, str, object]:
    """Two of four are enough."""
    return steps.VoterSet, "majority", property(lambda self: max(1, len(self.voters) // 2))


def believes_every_follower() -> tuple[object, str, object]:
    """Nobody asks whether a follower's log is the same as the leader's."""
    return log_view.LogView, "check_fetch", lambda self, offset, last_epoch: None


def counts_the_longest_log() -> tuple[object, str, object]:
    """What one voter has is taken for what a majority has."""

    def advance(node: core.Core, role: Leader) -> None:
        end = max((p.end_offset or 0 for p in role.voters.values()), default=0)
        if not node.unsaved and end > role.epoch_start:
            node.commit(min(end, node.log_view.end_offset))
        _ADVANCE(node, role)

    return leadership, "_advance", advance


def never_cuts_its_log() -> tuple[object, str, object]:
    """A follower that differs keeps what it has."""
    return log_view.LogView, "divergence", lambda self, leader: self.end_offset


def elects_itself_without_votes() -> tuple[object, str, object]:
    """A candidate takes every voter for one that voted for it."""

    def tally(node: core.Core, answers: dict[int, bool]) -> tuple[int, int]:
        return len(node.voters), len(node.voters)

    return election, "_tally", tally


def answers_a_change_twice() -> tuple[object, str, object]:
    """A change is answered when it is appended and again when it is committed."""

    def answer(node: core.Core, change: Any, error: Any, why: str | None = None) -> None:
        change.answered = change.planned
        _ANSWER(node, change, error, why)
        change.answered = False

    return pending, "_answer", answer


_FOLLOW, _ADVANCE = following.drive, leadership._advance
_DIVERGE, _ANSWER = log_view.LogView.divergence, pending._answer

MUTANTS: tuple[Mutant, ...] = (
    counts_its_own_unsynced_end,
    claims_before_it_is_on_disk,
    answers_before_it_saved,
    votes_for_anybody,
    votes_twice,
    changes_before_its_epoch_has_committed,
    changes_two_at_a_time,
    keeps_the_voters_it_should_take_back,
    counts_a_leader_that_is_no_voter,
    takes_half_for_a_majority,
    believes_every_follower,
    counts_the_longest_log,
    never_cuts_its_log,
    elects_itself_without_votes,
    lets_in_who_is_somewhere_else,
    truncates_what_is_committed,
    answers_a_change_twice,
)


KNOWN: dict[str, int] = {
    "counts_its_own_unsynced_end": 1,
    "claims_before_it_is_on_disk": 1,
    "answers_before_it_saved": 1,
    "votes_for_anybody": 10,
    "votes_twice": 1,
    "changes_before_its_epoch_has_committed": 1,
    "changes_two_at_a_time": 1,
    "keeps_the_voters_it_should_take_back": 9,
    "counts_a_leader_that_is_no_voter": 30,
    "takes_half_for_a_majority": 4,
    "believes_every_follower": 2,
    "counts_the_longest_log": 1,
    "never_cuts_its_log": 5,
    "elects_itself_without_votes": 1,
    "lets_in_who_is_somewhere_else": 4,
    "truncates_what_is_committed": 5,
    "answers_a_change_twice": 1,
}
"""The seed that found it last; when the code has changed since, others are tried."""


@contextmanager
def mutated(mutant: Mutant) -> Iterator[None]:
    """The mutant is in the code while this lasts."""
    place, name, replacement = mutant()
    real = place.__dict__[name]
    setattr(place, name, replacement)
    try:
        yield
    finally:
        setattr(place, name, real)
