"""Fetches, the high watermark, following and diverging (scenarios K105 to K128)."""

from __future__ import annotations

import pytest
from raft_cluster import Cluster, endpoint_of, key_of, voter_set
from raft_solo import Solo, journal_of, records

from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import ReplicaKey
from barnabas.raft.effects import Committed, KraftVersionChanged, SaveElection, Truncate, VotersChanged
from barnabas.raft.entries import (
    Batch,
    ElectionState,
    EpochEnd,
    KraftVersionEntry,
    LeaderChange,
    Opaque,
    VotersEntry,
)
from barnabas.raft.messages import (
    HIGH_WATERMARK_NOT_SUPPORTED,
    Answered,
    BeginQuorumEpochRequest,
    Failed,
    FetchRequest,
    FetchResponse,
    Persisted,
    Propose,
    ReadLog,
    Resign,
    VoteRequest,
    VoteResponse,
)
from barnabas.raft.settings import RaftConfig


def propose(solo: Solo, count: int = 1) -> None:
    solo.step(Propose("p", solo.node.epoch, (Opaque("x", count),)))


# ------------------------------------------------------------------ the high watermark


@pytest.mark.parametrize(("voters", "needed"), [((1,), 0), ((1, 2), 1), ((1, 2, 3), 1), ((1, 2, 3, 4, 5), 2)])
def test_the_high_watermark_is_what_a_majority_has(voters: tuple[int, ...], needed: int) -> None:
    """K107."""
    solo = Solo(voters).lead()
    propose(solo)
    end = solo.node.log_view.end_offset
    for node_id in voters[1 : 1 + needed]:
        assert solo.node.high_watermark == end - 1
        solo.fetch(node_id)
    assert solo.node.high_watermark == end


def test_records_of_older_epochs_commit_only_together_with_one_of_the_leaders_own() -> None:
    """K108 (and figure 8 of the Raft paper)."""
    solo = Solo(log_view=journal_of((1, 2, 3), [records(0, 1, 5)]), saved=ElectionState(1))
    solo.stand()
    solo.win(pre_vote=True)
    solo.win(pre_vote=False)
    assert solo.role == "leader"
    solo.fetch(2, offset=5)
    assert solo.node.high_watermark is None
    solo.fetch(2)
    assert solo.node.high_watermark == solo.node.log_view.end_offset


def test_a_leader_counts_only_its_own_synced_end() -> None:
    solo = Solo((1, 2, 3)).lead()
    solo.disk = False
    before = solo.node.high_watermark
    propose(solo)
    solo.fetch(2)
    assert solo.node.high_watermark == before
    solo.step(Persisted(solo.node.log_view.end_offset, solo.node.log_view.cut))
    assert solo.node.high_watermark == solo.node.log_view.end_offset


def test_the_others_can_commit_what_the_leaders_disk_is_late_with() -> None:
    solo = Solo((1, 2, 3)).lead()
    solo.disk = False
    propose(solo)
    solo.fetch(2)
    solo.fetch(3)
    assert solo.node.high_watermark == solo.node.log_view.end_offset


def test_a_fetch_of_an_observer_or_of_a_replaced_disk_moves_nothing() -> None:
    solo = Solo((1, 2, 3)).lead()
    before = solo.node.high_watermark
    propose(solo)
    solo.fetch(4)
    solo.fetch(2, disk=1)
    assert solo.node.high_watermark == before
    assert [row.key for row in solo.node.describe(solo.now).observers] == [key_of(2, 1), key_of(4)]


# ------------------------------------------------------------------ serving fetches


def test_a_fetch_is_answered_at_once_when_there_are_records() -> None:
    solo = Solo().lead()
    answer = solo.fetch(2, offset=0)
    assert isinstance(answer, FetchResponse)
    assert answer.read == ReadLog(0, 1 << 20, 3)


def test_a_fetch_at_the_end_waits_for_records_a_new_high_watermark_or_its_time() -> None:
    """K118: one that cannot say its high watermark waits like any other."""
    solo = Solo().lead()
    high = solo.node.high_watermark
    assert high is not None
    for wakes in ("records", "high watermark", "time"):
        assert solo.fetch(2, high_watermark=HIGH_WATERMARK_NOT_SUPPORTED) is None
        token = solo.tokens
        if wakes == "records":
            propose(solo)
            answer = solo.reply(token)
            assert isinstance(answer, FetchResponse) and answer.read is not None
            assert solo.fetch(2) is not None, "the commit it made itself"
        elif wakes == "high watermark":
            propose(solo)
            solo.fetch(3)
            answer = solo.reply(token)
            assert isinstance(answer, FetchResponse)
            solo.fetch(2)
        else:
            solo.advance(0.6)
            answer = solo.reply(token)
            assert isinstance(answer, FetchResponse) and answer.read is None


def test_a_follower_that_does_not_know_the_high_watermark_hears_it_at_once() -> None:
    solo = Solo().lead()
    answer = solo.fetch(2, high_watermark=-1)
    assert isinstance(answer, FetchResponse) and answer.high_watermark == 3


def test_waiting_fetches_fail_when_the_leader_resigns() -> None:
    solo = Solo().lead()
    assert solo.fetch(2) is None
    solo.step(Resign(1))
    answer = solo.reply()
    assert answer is not None and answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"max_wait": -1.0}, ErrorCode.INVALID_REQUEST),
        ({"offset": -1}, ErrorCode.INVALID_REQUEST),
        ({"last_epoch": -1}, ErrorCode.INVALID_REQUEST),
        ({"last_epoch": 2}, ErrorCode.INVALID_REQUEST),
        ({"epoch": 0, "last_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"epoch": 2}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"replica": key_of(1)}, ErrorCode.INVALID_REQUEST),
        ({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
    ],
)
def test_a_fetch_that_cannot_be_is_refused(fields: dict[str, object], error: ErrorCode) -> None:
    """K115."""
    good: dict[str, object] = {"epoch": 1, "replica": key_of(2), "offset": 3, "last_epoch": 1}
    assert Solo().lead().error(FetchRequest(**{**good, **fields})) is error  # type: ignore[arg-type]


def test_a_node_that_does_not_lead_says_who_does() -> None:
    solo = Solo().follow(2)
    answer = solo.ask(FetchRequest(1, key_of(3), 0, 0))
    assert isinstance(answer, FetchResponse)
    assert (answer.error, answer.leader_id, answer.endpoints) == (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        2,
        (endpoint_of(2),),
    )


@pytest.mark.parametrize(
    ("offset", "last_epoch", "diverging"),
    [
        (4, 1, None),
        (7, 1, EpochEnd(1, 5)),
        (6, 2, EpochEnd(1, 5)),
        (9, 3, EpochEnd(3, 8)),
        (8, 3, None),
        (3, 0, EpochEnd(0, 0)),
    ],
)
def test_a_log_that_differs_hears_where_it_may_still_agree(
    offset: int, last_epoch: int, diverging: EpochEnd | None
) -> None:
    log = [records(0, 1, 5), records(5, 3, 3)]
    solo = Solo(log_view=journal_of((1, 2, 3), log), saved=ElectionState(3)).lead()
    answer = solo.ask(FetchRequest(solo.node.epoch, key_of(2), offset, last_epoch))
    assert isinstance(answer, FetchResponse) and answer.error is ErrorCode.NONE
    assert answer.diverging == diverging
    assert (answer.read is None) == (diverging is not None)


def test_who_has_to_cut_its_log_is_alive_all_the_same() -> None:
    """The autopilot gave up a voter that had come back and was told where its log differs (seed 1101379)."""
    solo = Solo(
        log_view=journal_of((1, 2, 3), [records(0, 1, 5), records(5, 3, 3)]), saved=ElectionState(3)
    ).lead()
    before = next(row for row in solo.node.describe(solo.now).replicas if row.key.id == 2)
    solo.advance(0.1)
    answer = solo.ask(FetchRequest(solo.node.epoch, key_of(2), 7, 1))
    assert isinstance(answer, FetchResponse) and answer.diverging is not None
    after = next(row for row in solo.node.describe(solo.now).replicas if row.key.id == 2)
    assert before.last_fetch_ms < after.last_fetch_ms == solo.now.wall_ms
    assert after.end_offset == before.end_offset, "what it has is not known yet"


# ------------------------------------------------------------------ following


def test_the_next_fetch_leaves_only_when_what_it_claims_is_on_disk() -> None:
    solo = Solo().follow()
    solo.disk = False
    solo.fetched(records(0, 1, 2))
    assert not solo.has_sent(FetchRequest, 2) or not any(
        isinstance(s.request, FetchRequest) and s.request.offset == 2 for s in solo.sent
    )
    solo.step(Persisted(2, 0))
    assert isinstance(fetch := solo.take(FetchRequest, 2).request, FetchRequest) and fetch.offset == 2


def test_a_broker_fetches_on_without_waiting_for_its_disk() -> None:
    config = RaftConfig(can_vote=False)
    solo = Solo((2, 3), config=config, node_id=9).follow()
    solo.disk = False
    solo.fetched(records(0, 1, 2))
    assert isinstance(fetch := solo.take(FetchRequest, 2).request, FetchRequest) and fetch.offset == 2


def test_a_followers_voters_and_version_come_from_the_first_batch() -> None:
    """K005: and its election state is written in the newer form from the next change on."""
    solo = Solo((), config=RaftConfig(bootstrap=(endpoint_of(2),))).follow()
    first = Batch(0, 1, (LeaderChange(2), KraftVersionEntry(1), VotersEntry(voter_set(1, 2, 3))), b"")
    solo.fetched(first)
    assert solo.node.voters == voter_set(1, 2, 3) and solo.node.is_voter
    assert [e for e in solo.effects if isinstance(e, (VotersChanged, KraftVersionChanged))] == [
        VotersChanged(voter_set(1, 2, 3), 2),
        KraftVersionChanged(1),
    ]
    solo.ask(VoteRequest(7, key_of(3), 6, 99))
    saves = [effect for effect in solo.effects if isinstance(effect, SaveElection)]
    assert saves[0].kraft_version == 0 and saves[-1].kraft_version == 1


def test_a_follower_cuts_its_log_where_the_leader_says_and_its_voters_with_it() -> None:
    log = [records(0, 1, 5), Batch(5, 2, (VotersEntry(voter_set(1, 2)),), b""), records(6, 2, 2)]
    solo = Solo(log_view=journal_of((1, 2, 3), log), saved=ElectionState(2)).follow(2, 3)
    assert solo.node.voters == voter_set(1, 2)
    solo.fetched(diverging=EpochEnd(1, 4))
    assert Truncate(4) in solo.effects
    assert solo.node.voters == voter_set(1, 2, 3)
    assert isinstance(fetch := solo.take(FetchRequest, 2).request, FetchRequest)
    assert (fetch.offset, fetch.last_epoch) == (4, 1)


def test_the_high_watermark_of_a_follower_is_never_beyond_its_log_and_never_falls() -> None:
    solo = Solo().follow()
    solo.fetched(records(0, 1, 5), high_watermark=9)
    solo.fetched(high_watermark=2)
    assert [effect for effect in solo.effects if isinstance(effect, Committed)] == [Committed(5)]


@pytest.mark.parametrize("bad", [records(1, 1), records(9, 1), records(0, 5)])
def test_a_batch_that_does_not_fit_is_left_and_fetched_again(bad: Batch) -> None:
    """K120."""
    solo = Solo().follow()
    solo.fetched(bad)
    assert solo.node.log_view.end_offset == 0
    solo.fetched(records(0, 1))
    assert solo.node.log_view.end_offset == 1


def test_a_leader_that_does_not_answer_is_looked_for_at_the_bootstrap_servers() -> None:
    """K007, K121."""
    config = RaftConfig(bootstrap=(endpoint_of(8), endpoint_of(9)), can_vote=False)
    solo = Solo((), config=config, node_id=7)
    asked = solo.take(FetchRequest)
    assert asked.to in (-2, -3) and asked.endpoint in config.bootstrap
    solo.answer(asked, FetchResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, 4, 2, (endpoint_of(2),)))
    assert (solo.role, solo.node.epoch, solo.node.leader_id) == ("follower", 4, 2)
    solo.step(Failed(solo.take(FetchRequest, 2).correlation, "connection refused"))
    again = solo.take(FetchRequest)
    assert again.to in (-2, -3)
    solo.answer(again, FetchResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, 5, 3, (endpoint_of(3),)))
    assert solo.node.leader_id == 3 and solo.take(FetchRequest).endpoint == endpoint_of(3)


def test_never_two_fetches_at_a_time_and_late_answers_say_nothing() -> None:
    """K128."""
    solo = Solo().follow()
    first = solo.take(FetchRequest, 2)
    solo.advance(1.9)
    assert not solo.has_sent(FetchRequest, 2)
    solo.step(Failed(first.correlation, "reset"))
    solo.advance(0.05)
    solo.answer(first, FetchResponse(ErrorCode.NONE, 1, 2, batches=(records(0, 1),)))
    assert solo.node.log_view.end_offset == 0
    solo.step(Answered(4711, VoteResponse(ErrorCode.NONE, 9)))
    assert solo.node.epoch == 1


def test_a_higher_epoch_in_any_answer_is_followed() -> None:
    solo = Solo().lead()
    begin = solo.take(BeginQuorumEpochRequest, 2)
    from barnabas.raft.messages import BeginQuorumEpochResponse

    solo.answer(begin, BeginQuorumEpochResponse(ErrorCode.FENCED_LEADER_EPOCH, 5, 3, (endpoint_of(3),)))
    assert (solo.role, solo.node.epoch, solo.node.leader_id) == ("follower", 5, 3)


def test_who_may_not_take_part_stops() -> None:
    """K106."""
    solo = Solo()
    solo.stand()
    with pytest.raises(KafkaError):
        solo.answer(solo.take(VoteRequest, 2), VoteResponse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 0))


def test_the_leader_describes_everybody_and_forgets_silent_observers() -> None:
    """K125."""
    solo = Solo().lead()
    solo.fetch(4)
    solo.fetch(2, offset=0)
    told = solo.node.describe(solo.now)
    assert told.is_leader and told.leader_id == 1 and told.high_watermark == 3
    assert [(row.key.id, row.end_offset) for row in told.replicas] == [(1, 3), (2, 0), (3, 3)]
    assert [row.key.id for row in told.observers] == [4]
    assert told.replicas[0].last_fetch_ms == solo.now.wall_ms
    assert told.replicas[2].caught_up_ms > 0
    solo.fetch(2)
    for _ in range(160):
        solo.advance(2.0)
        solo.fetch(2)
    assert solo.node.describe(solo.now).observers == ()
    other = Solo().follow(2).node.describe(solo.now)
    assert not other.is_leader and other.replicas == ()


def test_statistics_tell_role_and_offsets() -> None:
    """K056 in part."""
    read = Solo().lead().node.statistics()
    assert (read.role, read.epoch, read.leader_id, read.high_watermark, read.voters) == ("leader", 1, 1, 3, 3)
    assert Solo((2, 3)).node.statistics().leader_id is None


def test_null_replicas_may_read_without_being_remembered() -> None:
    solo = Solo().lead()
    answer = solo.ask(FetchRequest(1, ReplicaKey(-1, key_of(1).directory_id), 0, 0))
    assert isinstance(answer, FetchResponse) and answer.read is not None
    assert solo.node.describe(solo.now).observers == ()


def test_all_logs_are_the_same_below_the_high_watermark() -> None:
    cluster = Cluster(1, 2, 3, seed=12)
    for i in range(30):
        cluster.write(f"v{i}")
    assert cluster.run(3.0, lambda: len({s.node.high_watermark for s in cluster.servers.values()}) == 1)
    logs = [[str(b.entries) for b in s.log] for s in cluster.servers.values()]
    assert logs[0] == logs[1] == logs[2]


def test_a_fetch_is_not_kept_longer_than_the_fetch_timeout_whatever_it_wishes() -> None:
    solo = Solo().lead()
    solo.fetch(2)
    solo.fetch(3)
    assert solo.fetch(9, max_wait=2_000_000.0) is None
    token = solo.tokens
    solo.advance(solo.node.core.config.fetch_timeout)
    answer = solo.reply(token)
    assert isinstance(answer, FetchResponse)
    assert (answer.error, answer.read) == (ErrorCode.NONE, None)
