"""Adding, removing, updating voters, the upgrade, joining by oneself (scenarios K011 to K062, K155 to K161).

Where Apache Kafka answers REQUEST_TIMED_OUT at once, an change here waits and says so at the end of its time.
"""

from __future__ import annotations

from math import inf

import pytest
from raft_cluster import CLUSTER, Cluster, endpoint_of, key_of, voter_of, voter_set
from raft_solo import Solo, journal_of

from barnabas.errors import ErrorCode
from barnabas.model import ZERO_UUID, Endpoint, ReplicaKey
from barnabas.raft.effects import Append, Send
from barnabas.raft.entries import (
    BOOTSTRAP,
    Batch,
    ElectionState,
    KraftVersionEntry,
    LeaderChange,
    Note,
    Opaque,
    VotersEntry,
)
from barnabas.raft.membership.pending_change import PendingChange
from barnabas.raft.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    CancelChangeRequest,
    ChangeResponse,
    Failed,
    FetchRequest,
    ProbeRequest,
    ProbeResponse,
    Propose,
    RemoveVoterRequest,
    Response,
    UpdateVoterRequest,
    UpdateVoterResponse,
    UpgradeRequest,
)
from barnabas.raft.roles import Leader
from barnabas.raft.settings import RaftConfig
from barnabas.raft.value import altered
from barnabas.raft.voters import VersionRange


def add(node_id: int = 4, disk: int = 0, **more: object) -> AddVoterRequest:
    return AddVoterRequest(key_of(node_id, disk), (endpoint_of(node_id),), **{"timeout": 5.0, **more})  # type: ignore[arg-type]


def remove(node_id: int, disk: int = 0) -> RemoveVoterRequest:
    return RemoveVoterRequest(key_of(node_id, disk))


def update(node_id: int = 2, **more: object) -> UpdateVoterRequest:
    fields = {"epoch": 1, "voter": key_of(node_id), "endpoints": (endpoint_of(7),), **more}
    return UpdateVoterRequest(**fields)  # type: ignore[arg-type]


def appended(solo: Solo) -> list[Batch]:
    return [effect.batch for effect in solo.effects if isinstance(effect, Append)]


def error_of(response: Response | None) -> ErrorCode | None:
    return None if response is None else response.error


def stay(solo: Solo, seconds: float) -> None:
    """Follow on: every fetch is answered with nothing after half a second."""
    for _ in range(int(seconds * 2)):
        solo.advance(0.5)
        solo.fetched()


def leader(voters: tuple[int, ...] = (1, 2, 3), version: int = 1) -> Solo:
    """A leader whose followers have just fetched."""
    solo = Solo(log_view=journal_of(voters, version=version)).lead()
    while solo.has_sent(BeginQuorumEpochRequest):
        solo.answer(solo.take(BeginQuorumEpochRequest), BeginQuorumEpochResponse(ErrorCode.NONE, 1, 1))
    solo.effects.clear()
    solo.sent.clear()
    return solo


def appended_add(solo: Solo) -> int:
    """Bring an add so far that its record stands in the log; returns its token."""
    solo.observe(4)
    solo.ask(add())
    token = solo.tokens
    solo.answer_probes(4)
    assert solo.node.voters == voter_set(1, 2, 3, 4)
    return token


# ------------------------------------------------------------------ add


def test_an_added_voter_counts_at_once_and_is_answered_when_the_new_set_has_it() -> None:
    """The good case of K019."""
    solo = leader()
    token = appended_add(solo)
    assert solo.reply(token) is None
    solo.fetch(2)
    assert solo.reply(token) is None, "two of four are no majority"
    solo.fetch(4)
    assert error_of(solo.reply(token)) is ErrorCode.NONE


def test_a_voter_that_is_ahead_of_the_others_lifts_the_high_watermark() -> None:
    """K110."""
    solo = leader((1, 2))
    solo.step(Propose("p", 1, (Opaque("x", 7),)))
    solo.fetch(2, offset=3)
    assert solo.node.high_watermark == 3
    solo.observe(4)
    solo.ask(add())
    solo.answer_probes(4)
    assert solo.node.voters == voter_set(1, 2, 4) and solo.node.high_watermark == 10


def test_an_add_that_need_not_be_committed_is_answered_when_it_is_appended() -> None:
    """K011: and the next change still waits for it."""
    solo = leader()
    solo.observe(4)
    solo.ask(add(ack_when_committed=False))
    token = solo.tokens
    solo.answer_probes(4)
    assert error_of(solo.reply(token)) is ErrorCode.NONE
    solo.ask(remove(3))
    assert solo.reply() is None
    assert "not committed" in solo.node.describe(solo.now).waiting[1]


@pytest.mark.parametrize("request_", [add(), remove(3), update(), UpgradeRequest(1)])
def test_a_change_asked_of_a_follower_is_refused(request_: object) -> None:
    """K013, K031, K043."""
    solo = Solo().follow(2)
    answer = solo.ask(request_)  # type: ignore[arg-type]
    assert error_of(answer) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    if isinstance(answer, UpdateVoterResponse):
        assert (answer.leader_id, answer.endpoints) == (2, (endpoint_of(2),))


@pytest.mark.parametrize(
    "request_",
    [
        AddVoterRequest(key_of(4), (Endpoint("OTHER", "h", 1),)),
        AddVoterRequest(key_of(4), ()),
        AddVoterRequest(ReplicaKey(4, ZERO_UUID), (endpoint_of(4),)),
        AddVoterRequest(ReplicaKey(-1, key_of(4).directory_id), (endpoint_of(4),)),
        RemoveVoterRequest(ReplicaKey(3, ZERO_UUID)),
        update(endpoints=(Endpoint("OTHER", "h", 1),)),
        update(voter=ReplicaKey(2, ZERO_UUID)),
        update(versions=VersionRange(0, 0)),
        update(versions=VersionRange(2, 1)),
    ],
)
def test_a_change_that_names_nobody_or_no_way_to_reach_it_is_invalid(request_: object) -> None:
    """K014, K024, K045."""
    assert error_of(leader().ask(request_)) is ErrorCode.INVALID_REQUEST  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "request_", [add(cluster_id="x"), RemoveVoterRequest(key_of(2), "x"), update(cluster_id="x")]
)
def test_a_change_meant_for_another_cluster_is_refused(request_: object) -> None:
    """K030, K044."""
    assert error_of(leader().ask(request_)) is ErrorCode.INCONSISTENT_CLUSTER_ID  # type: ignore[arg-type]


def test_a_second_change_waits_for_the_first_and_gives_up_in_time() -> None:
    """K015, K032, K040: REQUEST_TIMED_OUT, but only when the time is up."""
    solo = leader()
    appended_add(solo)
    for request in (add(5), remove(3)):
        solo.ask(request)
        token = solo.tokens
        assert solo.reply(token) is None
        for _ in range(6):
            solo.fetch(2, offset=3)
            solo.fetch(4, offset=3)
            solo.advance(1.0)
        answer = solo.reply(token)
        assert error_of(answer) is ErrorCode.REQUEST_TIMED_OUT
        assert isinstance(answer, ChangeResponse) and "not committed yet" in str(answer.message)


def test_static_voters_cannot_be_added_to() -> None:
    """K017."""
    solo = leader(version=0)
    solo.observe(4)
    assert error_of(solo.ask(add())) is ErrorCode.UNSUPPORTED_VERSION
    assert error_of(solo.ask(remove(3))) is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("disk", [0, 1])
def test_an_id_that_votes_cannot_be_added_whatever_its_disk(disk: int) -> None:
    """K018."""
    assert error_of(leader().ask(add(3, disk))) is ErrorCode.DUPLICATE_VOTER


def test_a_voter_to_be_that_never_answers_is_not_added() -> None:
    """K019."""
    solo = leader()
    solo.observe(4)
    solo.ask(add())
    token = solo.tokens
    for _ in range(6):
        solo.fetch(2)
        solo.fetch(4)
        solo.advance(1.0)
    assert error_of(solo.reply(token)) is ErrorCode.REQUEST_TIMED_OUT
    assert not any(isinstance(e, VotersEntry) for batch in appended(solo) for e in batch.entries)
    solo.sent.clear()
    solo.advance(0.6)
    solo.ask(add())
    solo.observe(4)
    assert solo.has_sent(ProbeRequest, 4)


@pytest.mark.parametrize("versions", [VersionRange(0, 0), VersionRange(2, 3), None])
def test_a_voter_to_be_that_does_not_support_the_version_is_refused(versions: VersionRange | None) -> None:
    """K021."""
    solo = leader()
    solo.observe(4)
    solo.ask(add())
    solo.answer(solo.take(ProbeRequest, 4), ProbeResponse(ErrorCode.NONE, versions))
    assert error_of(solo.reply()) is ErrorCode.INVALID_REQUEST


def test_a_voter_to_be_that_does_not_know_a_level_of_the_metadata_is_refused() -> None:
    """It would vote on, and lead by, metadata that it cannot read."""

    def unfit(features: tuple[tuple[str, int, int], ...]) -> str | None:
        return "does not know level 33" if any(highest < 33 for _, _, highest in features) else None

    for newest in (30, 33):
        solo = leader()
        solo.node.core.config = altered(solo.node.core.config, unfit=unfit)
        solo.observe(4)
        solo.ask(add())
        probed = ProbeResponse(ErrorCode.NONE, VersionRange(0, 1), (("metadata.version", 7, newest),))
        solo.answer(solo.take(ProbeRequest, 4), probed)
        assert solo.has_sent(BeginQuorumEpochRequest, 4) == (newest == 33)
        if newest == 30:
            response = solo.reply()
            assert isinstance(response, ChangeResponse) and response.error is ErrorCode.INVALID_REQUEST
            assert response.message == f"{key_of(4)} does not know level 33, at which the cluster is"


def test_an_endpoint_that_is_somebody_else_never_enters_the_set() -> None:
    """Better than Kafka: the probe asks who is there."""
    solo = leader()
    solo.observe(4)
    solo.ask(add())
    token = solo.tokens
    probe = solo.take(ProbeRequest, 4)
    assert probe.endpoint == endpoint_of(4)
    solo.answer(probe, ProbeResponse(ErrorCode.NONE, VersionRange(0, 1)))
    begin = solo.take(BeginQuorumEpochRequest, 4)
    assert isinstance(begin.request, BeginQuorumEpochRequest) and begin.request.voter == key_of(4)
    solo.answer(begin, BeginQuorumEpochResponse(ErrorCode.INVALID_VOTER_KEY, 1, 1))
    assert error_of(solo.reply(token)) is ErrorCode.INVALID_REQUEST


def test_a_voter_to_be_that_lags_is_not_added() -> None:
    """K022, K016: silent, behind, or not for long enough."""
    solo = leader()
    solo.ask(add())
    token = solo.tokens
    solo.answer_probes(4)
    assert "has not fetched from this leader" in solo.node.describe(solo.now).waiting[0]
    solo.fetch(4, offset=0)
    assert "kept up for 0 of 2 rounds" in solo.node.describe(solo.now).waiting[0]
    solo.fetch(4)
    assert "kept up for 1 of 2 rounds" in solo.node.describe(solo.now).waiting[0]
    for _ in range(6):
        solo.fetch(2)
        solo.fetch(3)
        solo.advance(1.0)
    assert error_of(solo.reply(token)) is ErrorCode.REQUEST_TIMED_OUT


def test_an_appended_change_that_nobody_acknowledges_times_out_and_stays_in_the_log() -> None:
    """K026, K038: when it commits later the set is the new one."""
    solo = leader()
    token = appended_add(solo)
    for _ in range(6):
        solo.fetch(2, offset=3)
        solo.fetch(3, offset=3)
        solo.advance(1.0)
    answer = solo.reply(token)
    assert error_of(answer) is ErrorCode.REQUEST_TIMED_OUT
    assert isinstance(answer, ChangeResponse) and "is in the log at offset" in str(answer.message)
    assert solo.node.voters == voter_set(1, 2, 3, 4)
    for node_id in (2, 3, 4):
        solo.fetch(node_id)
    assert solo.node.describe(solo.now).waiting == ()


def test_a_change_waits_until_the_leader_has_committed_in_its_epoch() -> None:
    """K033, K046: the single-server bug of the first Raft papers."""
    solo = Solo()
    solo.stand()
    solo.win(pre_vote=True)
    solo.win(pre_vote=False)
    for request in (remove(3), add()):
        solo.ask(request)
        assert solo.reply() is None
    assert error_of(solo.ask(update())) is ErrorCode.REQUEST_TIMED_OUT
    assert all("not committed anything" in line for line in solo.node.describe(solo.now).waiting)
    solo.fetch(2)
    solo.fetch(3)
    assert solo.node.voters == voter_set(1, 2)


# ------------------------------------------------------------------ remove


def test_a_removed_follower_becomes_an_observer_and_the_high_watermark_is_counted_anew() -> None:
    """K027, K112."""
    solo = leader()
    solo.ask(remove(3))
    assert solo.reply() is None
    assert solo.node.voters == voter_set(1, 2)
    token = solo.tokens
    solo.fetch(2)
    assert error_of(solo.reply(token)) is ErrorCode.NONE
    assert [row.key.id for row in solo.node.describe(solo.now).observers] == [3]
    removal = [entry for batch in appended(solo) for entry in batch.entries]
    assert isinstance(removal[0], Note) and removal[1] == VotersEntry(voter_set(1, 2))


def test_a_leader_that_removes_itself_does_not_count_itself_and_then_resigns() -> None:
    """K028, M4."""
    solo = leader()
    solo.ask(remove(1))
    token = solo.tokens
    solo.fetch(2)
    assert solo.reply(token) is None and solo.role == "leader"
    assert solo.fetch(2, offset=0) is not None, "it goes on serving"
    solo.fetch(2)
    solo.fetch(3)
    assert error_of(solo.reply(token)) is ErrorCode.NONE
    assert solo.role == "resigned"
    solo.advance(2.0)
    assert solo.role == "unattached" and solo.node.epoch == 2 and not solo.node.is_voter
    solo.advance(30.0)
    assert solo.role == "unattached"


@pytest.mark.parametrize("request_", [remove(3, disk=1), remove(9)])
def test_who_is_no_voter_cannot_be_removed(request_: RemoveVoterRequest) -> None:
    """K035, K036."""
    assert error_of(leader().ask(request_)) is ErrorCode.VOTER_NOT_FOUND


def test_the_last_voter_stays() -> None:
    """K037."""
    assert error_of(leader((1,)).ask(remove(1))) is ErrorCode.VOTER_NOT_FOUND


def test_a_pending_change_hears_that_the_leader_is_none_any_more() -> None:
    """K039."""
    solo = leader()
    solo.ask(remove(3))
    token = solo.tokens
    solo.ask(BeginQuorumEpochRequest(2, 2, (endpoint_of(2),)))
    assert error_of(solo.reply(token)) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_removal_that_would_leave_no_living_majority_waits() -> None:
    solo = leader()
    for _ in range(3):
        solo.advance(1.0)
        solo.fetch(2)
    solo.ask(remove(2))
    assert solo.node.voters == voter_set(1, 2, 3)
    assert "would be alive" in solo.node.describe(solo.now).waiting[0]
    solo.fetch(3)
    assert solo.node.voters == voter_set(1, 3)


def test_removals_go_before_adds() -> None:
    solo = leader()
    solo.observe(4)
    solo.observe(5)
    solo.ask(add(4))
    solo.answer_probes(4)
    solo.ask(add(5))
    solo.ask(remove(3))
    for node_id in (2, 4, 3):
        solo.fetch(node_id)
    sets = [e.voters.ids for b in appended(solo) for e in b.entries if isinstance(e, VotersEntry)]
    assert sets[:2] == [(1, 2, 3, 4), (1, 2, 4)]


def test_a_waiting_change_can_be_withdrawn_and_an_appended_one_cannot() -> None:
    solo = leader()
    solo.ask(add())
    token = solo.tokens
    assert error_of(solo.ask(CancelChangeRequest(key_of(4)))) is ErrorCode.NONE
    assert error_of(solo.reply(token)) is ErrorCode.OPERATION_NOT_ATTEMPTED
    solo.ask(remove(3))
    assert error_of(solo.ask(CancelChangeRequest(key_of(3)))) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_a_step_on_the_way_to_a_target_is_not_withdrawn_alone() -> None:
    """The leader would take it up again at once: success would be a lie (quorum seed 228)."""
    solo = leader()
    role = solo.node.role
    assert isinstance(role, Leader)
    role.pending_changes.append(PendingChange(None, remove(3), inf, planned=True, answered=True))
    assert error_of(solo.ask(CancelChangeRequest(key_of(3)))) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_who_was_removed_comes_back_only_by_an_operators_word() -> None:
    solo = leader()
    solo.ask(remove(3))
    solo.fetch(2)
    solo.observe(3)
    assert error_of(solo.ask(add(3, ack_when_committed=False))) is ErrorCode.POLICY_VIOLATION
    solo.ask(add(3))
    solo.answer_probes(3)
    assert solo.node.voters == voter_set(1, 2, 3)
    assert error_of(solo.ask(add(3, disk=1, ack_when_committed=False))) is None


def test_of_those_who_were_removed_only_the_newest_thousand_are_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("barnabas.raft.membership.steps.MOST_TOMBSTONES", 2)
    solo = leader()
    prefix = "barnabas.quorum.removed."
    old = tuple(Note(f"{prefix}{n}-x", str(9_990 + n * 5)) for n in (7, 3, 5))
    solo.step(Propose("old", 1, (*old, Note("barnabas.quorum.other", "1"))))
    solo.fetch(2)
    solo.ask(remove(3))
    solo.fetch(2)
    kept = {key for key in solo.node.log_view.notes if key.startswith(prefix)}
    assert kept == {f"{prefix}7-x", f"{prefix}{key_of(3).id}-{key_of(3).directory_id}"}


# ------------------------------------------------------------------ update and upgrade


def test_a_voter_whose_address_changed_says_so_until_the_set_has_it() -> None:
    """K041, K048."""
    solo = Solo(log_view=journal_of((1, 2, 3)))
    solo.node.core.endpoints = (endpoint_of(8),)
    solo.follow(2)
    stay(solo, 2.0)
    sent = solo.take(UpdateVoterRequest, 2)
    assert sent.request == UpdateVoterRequest(1, key_of(1), (endpoint_of(8),), VersionRange(0, 1), CLUSTER)
    solo.answer(sent, UpdateVoterResponse(ErrorCode.REQUEST_TIMED_OUT, 1, 2))
    stay(solo, 2.5)
    again = solo.take(UpdateVoterRequest, 2)
    solo.answer(again, UpdateVoterResponse(ErrorCode.NONE, 1, 2))
    new = voter_set(2, 3).with_voter(replace_endpoints(1, 8))
    solo.fetched(Batch(0, 1, (LeaderChange(2), VotersEntry(new)), b""))
    stay(solo, 2.5)
    assert not solo.has_sent(UpdateVoterRequest)


def replace_endpoints(node_id: int, port: int) -> object:
    from barnabas.raft.value import altered

    return altered(voter_of(node_id), endpoints=(endpoint_of(port),))


def test_the_leader_appends_an_update_and_answers_when_it_is_appended() -> None:
    """K041."""
    solo = leader()
    assert error_of(solo.ask(update(2))) is ErrorCode.NONE
    voter = solo.node.voters.get(2)
    assert voter is not None and voter.endpoints == (endpoint_of(7),)
    assert solo.node.voters.keys == voter_set(1, 2, 3).keys
    assert error_of(solo.ask(update(3))) is ErrorCode.REQUEST_TIMED_OUT, "the first is not committed"
    solo.fetch(2)
    before = len(appended(solo))
    assert error_of(solo.ask(update(2))) is ErrorCode.NONE
    assert len(appended(solo)) == before, "the same again changes nothing"


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (update(2, epoch=0), ErrorCode.FENCED_LEADER_EPOCH),
        (update(2, epoch=2), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (update(9), ErrorCode.VOTER_NOT_FOUND),
        (update(2, voter=key_of(2, 1)), ErrorCode.VOTER_NOT_FOUND),
    ],
)
def test_an_update_of_another_epoch_or_of_nobody_is_refused(
    request_: UpdateVoterRequest, error: ErrorCode
) -> None:
    """K042, K044."""
    assert error_of(leader().ask(request_)) is error


def test_an_answer_to_an_update_can_name_a_new_leader() -> None:
    """K049."""
    solo = Solo()
    solo.node.core.endpoints = (endpoint_of(8),)
    solo.follow(2)
    stay(solo, 2.0)
    sent = solo.take(UpdateVoterRequest, 2)
    solo.answer(sent, UpdateVoterResponse(ErrorCode.FENCED_LEADER_EPOCH, 3, 3, (endpoint_of(3),)))
    assert (solo.node.leader_id, solo.node.epoch) == (3, 3)
    assert solo.take(FetchRequest).to == 3


def test_the_upgrade_needs_every_voters_word_and_writes_version_and_voters_in_one_batch() -> None:
    """K050, K051, K052, K054."""
    solo = leader(version=0)
    assert error_of(solo.ask(UpgradeRequest(1))) is ErrorCode.INVALID_UPDATE_VERSION
    for node_id in (2, 3):
        request = update(node_id, endpoints=(endpoint_of(node_id),))
        assert error_of(solo.ask(request)) is ErrorCode.NONE
    assert error_of(solo.ask(UpgradeRequest(1, validate_only=True))) is ErrorCode.NONE
    assert solo.node.kraft_version == 0 and appended(solo) == []
    described = solo.node.describe(solo.now)
    assert [str(row.key) for row in described.replicas] == ["1", "2", "3"], "disks have no name yet"
    solo.ask(UpgradeRequest(1))
    described = solo.node.describe(solo.now)
    assert [row.key for row in described.replicas] == [key_of(1), key_of(2), key_of(3)]
    assert described.observers == (), "who they were before is nobody any more"
    token = solo.tokens
    assert [batch.entries for batch in appended(solo)] == [
        (KraftVersionEntry(1), VotersEntry(voter_set(1, 2, 3)))
    ]
    assert solo.node.kraft_version == 1
    assert error_of(solo.ask(update(2))) is ErrorCode.REQUEST_TIMED_OUT, "K053: until it is committed"
    assert solo.ask(UpgradeRequest(1)) is None, "success means committed, also for who asks again (seed 473)"
    again = solo.tokens
    solo.fetch(2)
    assert error_of(solo.reply(token)) is ErrorCode.NONE
    assert error_of(solo.reply(again)) is ErrorCode.NONE
    assert error_of(solo.ask(UpgradeRequest(1))) is ErrorCode.NONE
    assert error_of(solo.ask(UpgradeRequest(0))) is ErrorCode.INVALID_UPDATE_VERSION


def test_the_upgrade_needs_every_voters_support() -> None:
    """K051."""
    solo = leader(version=0)
    solo.ask(update(2))
    solo.ask(update(3, versions=VersionRange(0, 0)))
    assert error_of(solo.ask(UpgradeRequest(1))) is ErrorCode.INVALID_UPDATE_VERSION


def test_the_leader_counts_changes_for_the_metrics() -> None:
    """K056."""
    solo = leader()
    assert not solo.node.statistics().pending_change
    appended_add(solo)
    read = solo.node.statistics()
    assert read.pending_change and read.voters == 4
    for node_id in (2, 4):
        solo.fetch(node_id)
    assert not solo.node.statistics().pending_change
    assert isinstance(solo.node.role, Leader)


# ------------------------------------------------------------------ joining by oneself


@pytest.mark.parametrize(
    ("auto_join", "version", "sends"), [(True, 1, True), (False, 1, False), (True, 0, False)]
)
def test_an_observer_asks_to_be_let_in_where_it_may(auto_join: bool, version: int, sends: bool) -> None:
    """K060, K061, K062."""
    config = RaftConfig(cluster_id=CLUSTER, auto_join=auto_join)
    solo = Solo(log_view=journal_of((2, 3), version=version), config=config).follow(2)
    stay(solo, 2.0)
    assert solo.has_sent(AddVoterRequest) == sends
    if sends:
        request = solo.take(AddVoterRequest).request
        assert isinstance(request, AddVoterRequest) and not request.ack_when_committed


def test_a_new_disk_asks_first_that_its_old_one_be_removed() -> None:
    """K057."""
    log_view = journal_of(())
    log_view.append(
        Batch(0, 1, (KraftVersionEntry(1), VotersEntry(voter_set(2, 3).with_voter(voter_of(1, disk=5)))))
    )
    log_view.persisted_to(2, 0)
    solo = Solo(log_view=log_view, config=RaftConfig(auto_join=True), saved=ElectionState(1)).follow(2)
    stay(solo, 2.0)
    assert solo.take(RemoveVoterRequest).request == RemoveVoterRequest(key_of(1, disk=5))


def test_a_controller_with_a_new_disk_becomes_a_voter_by_itself() -> None:
    """K059, K159: remove and add, by the node itself."""
    cluster = Cluster(1, 2, 3, seed=5, config=RaftConfig(cluster_id=CLUSTER, auto_join=True))
    cluster.elect()
    victim = next(i for i in (1, 2, 3) if i != cluster.elect().id)
    cluster.crash(victim)
    cluster.format(victim, disk=1, bootstrap=False)
    cluster.restart(victim)

    def done() -> bool:
        leader = cluster.leader
        return (
            leader is not None and leader.node.voters.has(key_of(victim, 1)) and len(leader.node.voters) == 3
        )

    assert cluster.run(20.0, done)


# ------------------------------------------------------------------ whole quorums


def test_a_standalone_controller_runs_at_kraft_version_1() -> None:
    """K155."""
    cluster = Cluster(1)
    assert cluster.elect().node.kraft_version == 1


def test_a_controller_is_removed_and_added_again() -> None:
    """K156, K157."""
    cluster = Cluster(1, 2, 3, 4, seed=3)
    chief = cluster.elect()
    gone = next(i for i in (1, 2, 3, 4) if i != chief.id)
    assert cluster.change(remove(gone)).error is ErrorCode.NONE
    assert len(chief.node.voters) == 3
    cluster.run(2.0)
    assert cluster.change(add(gone)).error is ErrorCode.NONE
    assert len(chief.node.voters) == 4
    cluster.write("after")


def test_a_controller_formatted_with_a_larger_set_ends_as_observer_until_it_is_added() -> None:
    """K161: its own idea of the first voters is overwritten by the log."""
    cluster = Cluster(1, 2, 3, seed=4)
    cluster.write("before")
    disk = cluster.format(4)
    disk.snapshots.append((BOOTSTRAP, (KraftVersionEntry(1), VotersEntry(voter_set(1, 2, 3, 4))), 2))
    cluster.start(4)
    cluster.run(3.0)
    assert not cluster.servers[4].node.is_voter
    assert cluster.change(add(4)).error is ErrorCode.NONE
    assert cluster.run(3.0, lambda: cluster.servers[4].node.is_voter)


@pytest.mark.parametrize("holders", ["nobody", "minority", "majority"])
def test_a_leader_that_dies_with_a_new_set_in_its_log_leaves_no_mixture(holders: str) -> None:
    """K153: the set is either taken back or committed, and the quorum goes on."""
    cluster = Cluster(1, 2, 3, 4, 5, seed=7)
    cluster.start(6)
    chief = cluster.elect()
    cluster.run(2.0)
    others = [i for i in (1, 2, 3, 4, 5) if i != chief.id]
    reach = {"nobody": [], "minority": others[:1], "majority": others[:3]}[holders]
    answers = cluster.ask(add(6))
    assert cluster.run(5.0, lambda: len(chief.node.voters) == 6)
    cluster.partition(
        (chief.id, *reach, 6) if reach else (chief.id,), tuple(i for i in others if i not in reach)
    )
    cluster.run(0.1)
    cluster.crash(chief.id)
    cluster.heal()
    cluster.write("after", 20.0)
    assert answers == [] or answers[0].error in (ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    cluster.restart(chief.id)
    offset = cluster.write("and on")
    assert cluster.run(
        10.0, lambda: all((s.node.high_watermark or 0) > offset for s in cluster.servers.values())
    )
    assert len({s.node.voters for s in cluster.servers.values()}) == 1


def test_reading_the_probe_needs_no_second_thought() -> None:
    """A leader sends nothing to a voter-to-be but the two questions."""
    solo = leader()
    solo.observe(4)
    solo.ask(add())
    solo.answer_probes(4)
    kinds = {type(effect.request) for effect in solo.effects if isinstance(effect, Send) and effect.to == 4}
    assert kinds == {ProbeRequest, BeginQuorumEpochRequest}


def test_a_voter_to_be_of_another_cluster_is_refused_at_once_with_the_ids_of_both() -> None:
    solo = Solo((1, 2, 3)).lead()
    solo.observe(4)
    solo.ask(add())
    solo.answer(solo.take(ProbeRequest, 4), ProbeResponse(ErrorCode.NONE, VersionRange(0, 1)))
    solo.step(
        Failed(
            solo.take(BeginQuorumEpochRequest, 4).correlation,
            "it is of cluster theirs, this node is of cluster ours",
            another_cluster=True,
        )
    )
    refused = solo.reply()
    assert isinstance(refused, ChangeResponse)
    assert refused.error is ErrorCode.INVALID_REQUEST
    assert (refused.message or "").endswith(": it is of cluster theirs, this node is of cluster ours")


def test_a_change_for_another_cluster_is_refused_with_the_ids_of_both() -> None:
    refused = Solo((1, 2, 3)).lead().ask(add(cluster_id="theirs"))
    assert isinstance(refused, ChangeResponse)
    assert refused.error is ErrorCode.INCONSISTENT_CLUSTER_ID
    assert "cluster theirs" in (refused.message or "")
    assert f"cluster is {CLUSTER}" in (refused.message or "")


def test_a_voters_new_disk_is_told_that_the_old_one_still_votes() -> None:
    refused = Solo((1, 2, 3)).lead().ask(add(2, disk=1))
    assert isinstance(refused, ChangeResponse)
    assert refused.error is ErrorCode.DUPLICATE_VOTER
    assert refused.message == f"{key_of(2)} is a voter already: another disk of node 2"


def test_a_removal_at_kraft_version_0_is_refused_for_the_version_not_for_the_unknown_disk() -> None:
    solo = Solo(log_view=journal_of((1, 2, 3), version=0)).lead()
    assert solo.error(RemoveVoterRequest(ReplicaKey(3, ZERO_UUID))) is ErrorCode.UNSUPPORTED_VERSION
