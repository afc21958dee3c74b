"""A quorum of one: what `barnabas start` runs on."""

from __future__ import annotations

from raft_cluster import CLUSTER, Cluster, SeededRandom, endpoint_of, key_of, voter_set

from barnabas.errors import ErrorCode
from barnabas.model import Now
from barnabas.raft.effects import (
    Accepted,
    Append,
    Committed,
    Effect,
    LeaderChanged,
    Refused,
    Reply,
    SaveElection,
    Send,
    Stopped,
)
from barnabas.raft.entries import (
    BOOTSTRAP,
    ElectionState,
    KraftVersionEntry,
    LeaderChange,
    Note,
    Opaque,
    VotersEntry,
)
from barnabas.raft.log_view import LogView
from barnabas.raft.messages import ElectionSaved, Message, Persisted, Propose, Resign, Shutdown, Started
from barnabas.raft.node import RaftNode
from barnabas.raft.roles import Leader, Resigned
from barnabas.raft.settings import RaftConfig

NOW = Now(100.0, 1_700_000_000_000)


def bootstrapped() -> LogView:
    log_view = LogView()
    log_view.restore_snapshot(BOOTSTRAP, 2, (KraftVersionEntry(1), VotersEntry(voter_set(1))))
    log_view.restore_end(0, 0)
    return log_view


def one_node(log_view: LogView | None = None, saved: ElectionState | None = None) -> RaftNode:
    return RaftNode(
        key_of(1),
        (endpoint_of(1),),
        RaftConfig(cluster_id=CLUSTER),
        log_view or bootstrapped(),
        saved,
        SeededRandom(1),
        NOW,
    )


def run(node: RaftNode, *messages: Message) -> list[Effect]:
    effects: list[Effect] = []
    for message in messages:
        effects += node.step(message, NOW)
    return effects


def of(effects: list[Effect], kind: type) -> list[Effect]:
    return [effect for effect in effects if isinstance(effect, kind)]


def test_a_sole_voter_leads_at_once_and_opens_with_leader_kraft_version_and_voters() -> None:
    """K001, K085."""
    node = one_node()
    effects = run(node, Started())
    assert repr(node) == "<Leader epoch=1 hw=? voters=1>"
    (append,) = of(effects, Append)
    assert isinstance(append, Append)
    assert append.batch.entries == (
        LeaderChange(1, (1,), (1,)),
        KraftVersionEntry(1),
        VotersEntry(voter_set(1)),
    )
    assert not of(effects, Send)


def test_with_kraft_version_0_the_first_batch_is_the_leader_change_alone() -> None:
    """K002."""
    log_view = LogView(voter_set(1).without_directories())
    log_view.restore_end(0, 0)
    (append,) = of(run(one_node(log_view), Started()), Append)
    assert isinstance(append, Append)
    assert append.batch.entries == (LeaderChange(1, (1,), (1,)),)


def test_nothing_is_committed_before_both_the_log_and_the_vote_are_on_disk() -> None:
    node = one_node()
    effects = run(node, Started())
    serial = max(effect.serial for effect in effects if isinstance(effect, SaveElection))
    assert not of(run(node, Persisted(3, 0)), Committed)
    effects = run(node, ElectionSaved(serial))
    assert of(effects, Committed) == [Committed(3)]
    assert of(effects, LeaderChanged) == [LeaderChanged(1, 1, (endpoint_of(1),))]
    assert repr(node) == "<Leader epoch=1 hw=3 voters=1>"


def test_a_proposal_is_accepted_with_its_offsets_and_committed_when_it_is_synced() -> None:
    node = one_node()
    run(node, Started(), ElectionSaved(9), Persisted(3, 0))
    effects = run(node, Propose("a", 1, (Opaque("x", count=2), Note("k", "v"))))
    assert of(effects, Accepted) == [Accepted("a", 3, 5, 1)]
    assert not of(effects, Committed)
    assert of(run(node, Persisted(6, 0)), Committed) == [Committed(6)]
    assert node.log_view.notes == {"k": "v"}


def test_a_proposal_of_an_old_epoch_is_refused() -> None:
    node = one_node()
    run(node, Started(), ElectionSaved(9), Persisted(3, 0))
    (refused,) = of(run(node, Propose("a", 0, (Opaque("x"),))), Refused)
    assert isinstance(refused, Refused) and refused.error is ErrorCode.NOT_CONTROLLER


def test_a_former_leader_resigns_first_and_then_leads_a_higher_epoch() -> None:
    log_view = bootstrapped()
    node = one_node(log_view)
    first = [
        e.batch for e in run(node, Started(), ElectionSaved(9), Persisted(3, 0)) if isinstance(e, Append)
    ]
    again = bootstrapped()
    for batch in first:
        again.restore_batch(batch)
    again.restore_end(0, 3)
    node = one_node(again, ElectionState(1, 1, None))
    effects = run(node, Started())
    saves = [effect.state for effect in effects if isinstance(effect, SaveElection)]
    assert saves[0] == ElectionState(1, 1, None)
    assert saves[-1] == ElectionState(3, 1, None)
    (append,) = of(effects, Append)
    assert isinstance(append, Append)
    assert append.batch.entries == (LeaderChange(1, (1,), (1,)),), (
        "the voters stand in the log already (K009)"
    )
    assert append.batch.base_offset == 3 and append.batch.epoch == 3


def test_a_leader_with_an_outdated_address_writes_it_with_its_first_batch() -> None:
    """K008."""
    log_view = bootstrapped()
    node = RaftNode(key_of(1), (endpoint_of(7),), RaftConfig(), log_view, None, SeededRandom(1), NOW)
    (append,) = of(run(node, Started()), Append)
    assert isinstance(append, Append)
    voters = append.batch.entries[2]
    assert isinstance(voters, VotersEntry)
    assert voters.voters.voters[0].endpoints == (endpoint_of(7),)


def test_a_sync_that_began_before_the_log_was_cut_says_nothing() -> None:
    node = one_node()
    run(node, Started(), ElectionSaved(9))
    node.core.log_view.cut += 1
    assert not of(run(node, Persisted(3, 0)), Committed)


def test_resigning_alone_leads_on_in_a_higher_epoch() -> None:
    """K100 in part: resign() of an older epoch is ignored."""
    node = one_node()
    run(node, Started(), ElectionSaved(9), Persisted(3, 0))
    assert run(node, Resign(0)) == []
    run(node, Resign(1))
    assert isinstance(node.role, Leader) and node.epoch == 3


def test_a_sole_voter_shuts_down_at_once() -> None:
    """K101 in part."""
    node = one_node()
    run(node, Started(), ElectionSaved(9), Persisted(3, 0))
    assert of(run(node, Shutdown()), Stopped) == [Stopped(True)]
    assert not isinstance(node.role, Resigned)


def test_a_single_voter_never_loses_its_quorum() -> None:
    """K093 in part."""
    cluster = Cluster(1)
    cluster.elect()
    cluster.run(60.0)
    leader = cluster.leader
    assert leader is not None and leader.node.epoch == 1


def test_a_quorum_of_one_survives_a_hundred_power_cuts() -> None:
    cluster = Cluster(1, seed=5)
    written = 0
    for i in range(100):
        cluster.write(f"v{i}")
        written += 1
        cluster.propose("lost perhaps")
        cluster.crash(1)
        cluster.restart(1)
    cluster.elect()
    values = [text for _, text in cluster.invariants.by_offset.values()]
    assert [text for text in values if text.startswith("v") and text[1:].isdigit()] == [
        f"v{i}" for i in range(written)
    ]


def test_replies_rest_on_a_saved_vote() -> None:
    node = one_node()
    effects = run(node, Started())
    assert not of(effects, Reply)
