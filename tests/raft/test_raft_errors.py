"""Why a node gives no answer: what is said of it is about it, and goes when it speaks."""

from __future__ import annotations

from raft_cluster import CLUSTER, bootstrap_of, endpoint_of, key_of
from raft_solo import Solo

from barnabas.errors import ErrorCode
from barnabas.model import NodeId
from barnabas.raft.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    Failed,
    FetchRequest,
    FetchResponse,
    ProbeRequest,
    VoteRequest,
    VoteResponse,
)
from barnabas.raft.settings import RaftConfig

NAMED = RaftConfig(cluster_id=CLUSTER, bootstrap=(bootstrap_of(2),))


def errors(solo: Solo) -> dict[NodeId, str]:
    return dict(solo.node.describe(solo.now).errors)


def leader_without(silent: int, config: RaftConfig | None = None) -> Solo:
    """A leader of 1, 2, 3 that asks the silent one whether it knows."""
    solo = Solo((1, 2, 3), config=config).lead()
    while not solo.has_sent(BeginQuorumEpochRequest, silent):
        solo.advance(0.2)
        solo.fetch(5 - silent)
    return solo


def test_an_answer_of_a_bootstrap_server_says_nothing_of_the_voter_that_was_looked_for_there() -> None:
    solo = leader_without(3, NAMED)
    refused = solo.take(BeginQuorumEpochRequest, 3)
    assert refused.endpoint == endpoint_of(3)
    solo.step(Failed(refused.correlation, "connection refused"))
    assert errors(solo) == {3: "connection refused"}
    while not solo.has_sent(BeginQuorumEpochRequest, 3):
        solo.advance(0.2)
        solo.fetch(2)
    elsewhere = solo.take(BeginQuorumEpochRequest, 3)
    assert elsewhere.endpoint == bootstrap_of(2)
    solo.answer(elsewhere, BeginQuorumEpochResponse(ErrorCode.INVALID_VOTER_KEY, 1, 1))
    assert errors(solo) == {3: "connection refused"}


def test_another_disk_at_a_voters_own_address_is_told_in_an_election_too() -> None:
    solo = Solo((1, 2, 3))
    solo.stand()
    asked = solo.take(VoteRequest, 3)
    solo.answer(asked, VoteResponse(ErrorCode.INVALID_VOTER_KEY, solo.node.epoch))
    assert "another disk" in errors(solo)[3]


def test_the_error_of_an_observer_goes_when_it_fetches() -> None:
    solo = Solo((1, 2)).lead()
    solo.observe(4)
    solo.ask(AddVoterRequest(key_of(4), (endpoint_of(4),), 5.0))
    solo.step(Failed(solo.take(ProbeRequest, 4).correlation, "connection refused"))
    assert errors(solo) == {4: "connection refused"}
    solo.fetch(4)
    assert errors(solo) == {}


def test_the_error_of_a_dead_voter_stays_while_its_node_follows_on_another_disk() -> None:
    solo = leader_without(3)
    solo.step(Failed(solo.take(BeginQuorumEpochRequest, 3).correlation, "connection refused"))
    solo.fetch(3, disk=1)
    assert errors(solo) == {3: "connection refused"}
    solo.fetch(3)
    assert errors(solo) == {}


def test_a_follower_forgets_the_errors_of_those_that_it_asks_no_more() -> None:
    solo = Solo((1, 2, 3))
    solo.stand()
    solo.step(Failed(solo.take(VoteRequest, 3).correlation, "connection refused"))
    assert errors(solo) == {3: "connection refused"}
    solo.follow(2, epoch=solo.node.epoch + 1)
    assert errors(solo) == {}


def test_a_node_that_waits_says_why_each_bootstrap_server_is_of_no_help() -> None:
    config = RaftConfig(cluster_id=CLUSTER, bootstrap=(bootstrap_of(2), bootstrap_of(3)))
    solo = Solo((), config=config, node_id=4)
    first = solo.take(FetchRequest)
    solo.step(Failed(first.correlation, "connection refused"))
    second = solo.take(FetchRequest)
    solo.answer(second, FetchResponse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0))
    said = dict(solo.node.describe(solo.now).servers)
    assert said == {
        first.endpoint: "connection refused",
        second.endpoint: "UNKNOWN_TOPIC_OR_PARTITION: it names no leader",
    }
    assert errors(solo) == {}, "no node has a negative id"


def test_what_a_bootstrap_server_failed_at_goes_when_it_names_a_leader() -> None:
    solo = Solo((), config=NAMED, node_id=4)
    solo.step(Failed(solo.take(FetchRequest).correlation, "connection refused"))
    assert solo.node.describe(solo.now).servers
    solo.advance(2.0)
    names = FetchResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, 1, 2, (endpoint_of(2),))
    solo.answer(solo.take(FetchRequest), names)
    assert solo.node.describe(solo.now).servers == ()


def test_voters_that_drew_their_directory_ids_each_for_itself_find_that_their_sets_differ() -> None:
    solo = Solo((1, 2, 3))
    theirs = VoteRequest(1, key_of(2, 1), 0, 0, True, key_of(1, 1), CLUSTER)
    assert solo.error(theirs) is ErrorCode.INVALID_VOTER_KEY
    assert solo.node.describe(solo.now).differing == ((key_of(2, 1), key_of(1, 1)),)


def test_a_voter_on_a_new_disk_does_not_make_the_sets_differ() -> None:
    solo = Solo((1, 2, 3))
    asks_the_old_disk = VoteRequest(1, key_of(2), 0, 0, True, key_of(1, 1), CLUSTER)
    assert solo.error(asks_the_old_disk) is ErrorCode.INVALID_VOTER_KEY
    assert solo.node.describe(solo.now).differing == ()
