"""The history's line about a change stands right behind the change, and goes with it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from raft_cluster import CLUSTER, endpoint_of, key_of
from raft_solo import Solo

from barnabas.errors import ErrorCode
from barnabas.raft.effects import Append
from barnabas.raft.entries import Batch, Opaque, VotersEntry
from barnabas.raft.membership.pending_change import PendingChange
from barnabas.raft.messages import (
    AddVoterRequest,
    ChangeResponse,
    RemoveVoterRequest,
    UpdateVoterRequest,
    UpgradeRequest,
)


def keeper(*voters: int) -> Solo:
    solo = Solo(voters).lead()
    solo.keeps_history = True
    return solo


@pytest.mark.parametrize("voters", [(1, 2), (1, 2, 3)])
def test_a_leader_that_removed_itself_leads_until_the_others_have_the_line(voters: tuple[int, ...]) -> None:
    solo = keeper(*voters)
    assert solo.ask(RemoveVoterRequest(key_of(1))) is None
    token = solo.tokens
    removed = [b for b in appended(solo) if isinstance(b.entries[-1], VotersEntry)][-1]
    for other in voters[1:]:
        solo.fetch(other, offset=removed.end_offset)
    assert solo.role == "leader", "the others have its removal, and not yet what the history says of it"
    answer = solo.reply(token)
    assert isinstance(answer, ChangeResponse) and answer.error is ErrorCode.NONE
    for other in voters[1:]:
        solo.fetch(other)
    assert solo.role == "resigned"


def appended(solo: Solo) -> list[Batch]:
    return [effect.batch for effect in solo.effects if isinstance(effect, Append)]


def test_every_change_has_its_line_appended_in_its_own_step() -> None:
    solo = keeper(1, 2, 3)
    solo.observe(4)
    solo.fetch(2)
    solo.ask(AddVoterRequest(key_of(4), (endpoint_of(4),)))
    solo.answer_probes(4)
    solo.fetch(2)
    solo.fetch(3)
    solo.fetch(4)
    solo.ask(UpdateVoterRequest(1, key_of(2), (endpoint_of(7),), cluster_id=CLUSTER))
    solo.fetch(3)
    solo.fetch(4)
    solo.ask(RemoveVoterRequest(key_of(3)))
    told = []
    batches = appended(solo)
    for batch, behind in pairwise(batches):
        if isinstance(batch.entries[-1], VotersEntry) and isinstance(behind.entries[0], Opaque):
            told.append(str(behind.entries[0].payload).split()[0])
    assert told == ["add", "update", "remove"]


def test_a_node_that_joins_by_itself_is_not_taken_for_an_operator() -> None:
    solo = keeper(1, 2)
    solo.observe(4)
    solo.ask(AddVoterRequest(key_of(4), (endpoint_of(4),), 5.0, ack_when_committed=False))
    solo.answer_probes(4)
    assert [(note.what, note.by) for note in solo.noted] == [(f"add {key_of(4)}", "node 4 by itself")]


def test_an_upgrade_names_the_feature_and_the_level() -> None:
    assert str(PendingChange(None, UpgradeRequest(1), 0.0)) == "upgrade kraft.version to 1"
