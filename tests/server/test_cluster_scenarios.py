"""Scenarios of several brokers (docs/scenarios.md, K162 to K201), with real nodes in virtual time."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from tests.server.virtual import Virtual

from barnabas.config import NO_FLUSH
from barnabas.controller.feature_levels import supported
from barnabas.controller.image import PartitionState
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import NO_NODE, NodeId, Uuid
from barnabas.sim.cluster.node import SimNode
from barnabas.wire.metadata import BeginTransactionRecord, TopicRecord
from barnabas.wire.schemas.brokers import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    BrokerRegistrationRequestFeature,
    BrokerRegistrationRequestListener,
    BrokerState,
    UnregisterBrokerRequest,
)
from barnabas.wire.schemas.cluster import DescribeClusterRequest, MetadataRequest, MetadataRequestTopic
from barnabas.wire.schemas.configs import (
    FeatureUpdateKey,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    UpdateFeaturesRequest,
)
from barnabas.wire.schemas.quorum import (
    AddRaftVoterRequest,
    AddRaftVoterRequestListener,
    RemoveRaftVoterRequest,
)
from barnabas.wire.schemas.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
)

SEPARATE = {"brokers": (4, 5, 6), "controllers": (1, 2, 3)}


def in_sync(cluster: Virtual, topic: str, *replicas: int, index: int = 0) -> bool:
    return set(cluster.state(topic, index).isr) == set(replicas)


def same_everywhere(cluster: Virtual, topic: str, *replicas: int) -> bool:
    ends = {cluster.end(replica, topic) for replica in replicas}
    return len(ends) == 1 and ends != {None}


def alter(cluster: Virtual, kind: int, name: str, **settings: str) -> int:
    """The code that setting these is answered with."""
    changes = [
        IncrementalAlterConfigsRequestAlterableConfig(
            name=key.replace("_", "."), config_operation=0, value=value
        )
        for key, value in settings.items()
    ]
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=kind, resource_name=name, configs=changes
    )
    answer = cluster.ask(IncrementalAlterConfigsRequest(resources=[resource]))
    return int(answer.responses[0].error_code)


def wants_in_sync(cluster: Virtual, topic: str, members: dict[NodeId, int], **other: Any) -> ErrorCode:
    """What the leader is answered that wants these to be in sync (broker id: epoch)."""
    state = cluster.state(topic)
    data = AlterPartitionRequestPartitionData(
        partition_index=0,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        new_isr_with_epochs=[BrokerState(broker_id=b, broker_epoch=e) for b, e in members.items()],
    )
    topics = [
        AlterPartitionRequestTopicData(topic_id=cluster.image.topics_by_name[topic].id, partitions=[data])
    ]
    epoch = cluster.image.brokers[state.leader].epoch
    request = AlterPartitionRequest(
        **{"broker_id": state.leader, "broker_epoch": epoch, "topics": topics, **other}
    )
    answer = cluster.ask(request, controller=True)
    return ErrorCode(answer.error_code or answer.topics[0].partitions[0].error_code)


# ---- the quorum changes while records flow ---------------------------------------------------------------


def add_controller(cluster: Virtual, node: SimNode) -> None:
    assert node.process is not None
    request = AddRaftVoterRequest(
        cluster_id=cluster.world.setup.cluster_id,
        timeout_ms=10_000,
        voter_id=node.id,
        voter_directory_id=node.process.quorum.settings.key.directory_id,
        listeners=[AddRaftVoterRequestListener(name="CONTROLLER", host=f"n{node.id}", port=9093)],
    )
    answer = cluster.ask(request)
    assert answer.error_code == ErrorCode.NONE, answer


def remove_controller(cluster: Virtual, node: SimNode) -> None:
    assert node.process is not None
    request = RemoveRaftVoterRequest(
        cluster_id=cluster.world.setup.cluster_id,
        voter_id=node.id,
        voter_directory_id=node.process.quorum.settings.key.directory_id,
    )
    answer = cluster.ask(request)
    assert answer.error_code == ErrorCode.NONE, answer


def voters(cluster: Virtual) -> set[NodeId]:
    active = cluster.world.active_controller
    return set() if active is None or active.quorum is None else set(active.quorum.voters.ids)


@pytest.mark.parametrize(
    ("brokers", "first", "second"),
    [((1, 2, 3), 1, 2), ((4, 5, 6), 1, 2)],
    ids=["k162_combined_nodes", "k163_separate_controllers"],
)
def test_the_only_controller_is_replaced_while_records_flow(
    brokers: tuple[NodeId, ...], first: NodeId, second: NodeId
) -> None:
    """K162 and K163: one voter; another is added, then the first, which leads, is removed."""
    with Virtual(brokers, (first,), joining=(second,), topics={"t": 2}) as cluster:
        cluster.place("t", 2, 3)
        cluster.load()
        cluster.run(3)
        add_controller(cluster, cluster[second])
        cluster.until(lambda: voters(cluster) == {first, second}, 5)
        cluster.run(2)
        assert cluster.controller() == first
        remove_controller(cluster, cluster[first])
        cluster.until(lambda: voters(cluster) == {second}, 5)
        assert cluster.controller() == second
        cluster.run(3)
        cluster.place("after", 2, 3)
        counts = cluster.judge()
        assert counts["acknowledged"] > 20
        assert counts["read"] > 20


def test_k169_from_combined_nodes_to_separate_ones_the_cluster_serves_all_along() -> None:
    """K169.  Nodes 1 to 3 are both; brokers 4 to 6 join, take the partitions; 1 to 3 become controllers only."""
    with Virtual((1, 2, 3, 4, 5, 6), (1, 2, 3), later=(4, 5, 6), topics={"t": 2}) as cluster:
        cluster.create("t", [1, 2, 3], [2, 3, 1])
        cluster.load()
        cluster.run(2)
        for joining in (4, 5, 6):
            cluster.start(joining)
        for index, target in enumerate(([4, 5, 6], [5, 6, 4])):
            assert cluster.move("t", target, index) is ErrorCode.NONE
        cluster.until(lambda: all(not cluster.state("t", i).adding for i in (0, 1)), 60)
        offsets = cluster.image.topics_by_name.get("__consumer_offsets")
        for state in () if offsets is None else list(offsets.partitions.values()):
            cluster.move("__consumer_offsets", [4, 5, 6], state.index)
        cluster.run(3)
        for leaving in (1, 2, 3):
            assert cluster.end(leaving, "t") is None
        cluster.world.setup = replace(cluster.world.setup, brokers=(4, 5, 6))
        for leaving in (1, 2, 3):
            cluster.stop(leaving)
            cluster.start(leaving)
            cluster.until(lambda: cluster.world.active_controller is not None)
            answer = cluster.ask(UnregisterBrokerRequest(broker_id=leaving), at=4)
            assert answer.error_code == ErrorCode.NONE
        counts = cluster.judge()
        assert counts["acknowledged"] > 20
        assert set(cluster.image.brokers) == {4, 5, 6}
        shown = cluster.ask(DescribeClusterRequest(include_fenced_brokers=True), at=4)
        assert {broker.broker_id for broker in shown.brokers} == {4, 5, 6}


# ---- brokers come and go ---------------------------------------------------------------------------------


def test_k187_a_transaction_that_a_dead_controller_left_open_is_aborted_and_nobody_sees_it() -> None:
    """K187."""
    with Virtual(**SEPARATE) as cluster:
        before = {name: image_levels(cluster[name]) for name in (4, 5, 6)}
        assert len(set(before.values())) == 1  # the first records were written once, and reached everybody
        active = cluster.world.active_controller
        assert active is not None and active.quorum is not None
        active.quorum.steps.append_own(
            [BeginTransactionRecord(name="half"), TopicRecord(name="ghost", topic_id=Uuid.of(9, 9))]
        )
        cluster.run(1)
        cluster.kill(active.id)
        cluster.until(lambda: cluster.world.active_controller not in (None, active))
        cluster.create("real", [4, 5, 6])
        assert "ghost" not in cluster.image.topics_by_name
        assert {name: image_levels(cluster[name]) for name in (4, 5, 6)} == before


def image_levels(node: SimNode) -> tuple[tuple[str, int], ...]:
    assert node.quorum is not None
    return tuple(sorted(node.quorum.image.features.items()))


def registration(cluster: Virtual, id_: NodeId, **fields: Any) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        **{
            "broker_id": id_,
            "cluster_id": cluster.world.setup.cluster_id,
            "incarnation_id": Uuid.of(id_, 4711),
            "listeners": [BrokerRegistrationRequestListener(name="PLAINTEXT", host=f"n{id_}", port=9092)],
            "features": [
                BrokerRegistrationRequestFeature(
                    name=name, min_supported_version=low, max_supported_version=high
                )
                for name, (low, high) in supported().items()
            ],
            "rack": None,
            "log_dirs": [Uuid.of(id_, 4711)],
            **fields,
        }
    )


def test_k188_a_second_broker_of_the_same_id_is_refused_until_the_session_of_the_first_is_over() -> None:
    """K188."""
    with Virtual(**SEPARATE) as cluster:
        cluster.create("t", [4, 5, 6])
        old = cluster.image.brokers[4].epoch
        answer = cluster.ask(registration(cluster, 4), controller=True)
        assert answer.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
        cluster.cut(4)
        cluster.run(10)
        answer = cluster.ask(registration(cluster, 4), controller=True)
        assert answer.error_code == ErrorCode.NONE
        assert answer.broker_epoch > old
        cluster.mend(4)  # the first one is still there: everything it says is of an earlier life
        stale = BrokerHeartbeatRequest(broker_id=4, broker_epoch=old)
        assert cluster.ask(stale, controller=True).error_code == ErrorCode.STALE_BROKER_EPOCH


@pytest.mark.parametrize(
    ("features", "code"),
    [
        ([], ErrorCode.INVALID_REGISTRATION),
        ([("metadata.version", 7, 20)], ErrorCode.UNSUPPORTED_VERSION),
        ([("metadata.version", 7, 30)], ErrorCode.UNSUPPORTED_VERSION),  # the other levels are missing
    ],
)
def test_k189_a_registration_that_does_not_fit_the_features_is_refused(
    features: list[tuple[str, int, int]], code: ErrorCode
) -> None:
    """K189."""
    with Virtual(**SEPARATE) as cluster:
        wanted = [
            BrokerRegistrationRequestFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, low, high in features
        ]
        answer = cluster.ask(registration(cluster, 9, features=wanted), controller=True)
        assert answer.error_code == code
        assert 9 not in cluster.image.brokers


def test_k190_a_silent_broker_is_fenced_after_its_session_and_its_leads_move() -> None:
    """K190."""
    with Virtual(brokers=(1, 2, 3, 4), controllers=(1, 2, 3)) as cluster:
        cluster.create("t", [4, 1, 2], [1, 4, 3])
        cluster.cut(4)  # it lives, but nobody hears of it: its ports do not refuse
        took = cluster.until(lambda: cluster.image.brokers[4].fenced, 20)
        assert 7.5 < took < 11.5  # 9 s after its last heartbeat
        assert cluster.state("t", 0).leader in (1, 2)
        assert 4 not in (*cluster.state("t", 0).isr, *cluster.state("t", 1).isr)
        cluster.mend(4)
        cluster.until(lambda: in_sync(cluster, "t", 1, 2, 4))


def test_k190_two_silent_brokers_are_fenced_one_after_the_other() -> None:
    """K190."""
    with Virtual(brokers=(4, 5, 6, 7), controllers=(1, 2, 3)) as cluster:
        cluster.create("t", [4, 5, 6])
        cluster.cut(4)
        cluster.cut(5)
        seen: list[frozenset[int]] = []

        def look() -> bool:
            fenced = frozenset(id_ for id_ in (4, 5) if cluster.image.brokers[id_].fenced)
            if not seen or seen[-1] != fenced:
                seen.append(fenced)
            return len(fenced) == 2

        cluster.until(look, 20)
        assert [len(fenced) for fenced in seen] == [0, 1, 2]
        assert (cluster.state("t").leader, cluster.state("t").isr) == (6, (6,))


def test_k191_a_broker_that_leaves_hands_over_first_and_one_that_leads_nothing_goes_at_once() -> None:
    """K191."""
    with Virtual(**SEPARATE) as cluster:
        cluster.create("t", [4, 5, 6])
        seen: list[tuple[bool, bool, NodeId]] = []

        def watch() -> None:
            broker, state = cluster.image.brokers[4], cluster.state("t")
            now = (broker.in_controlled_shutdown, broker.fenced, state.leader)
            if not seen or seen[-1] != now:
                seen.append(now)

        cluster.world.every(0.001, watch)
        cluster.run(0.01)
        assert cluster.stop(4) < 3
        watch()
        assert seen == [(False, False, 4), (True, False, 5), (True, True, 5)]
        assert in_sync(cluster, "t", 5, 6)
        cluster.create("other", [5, 6])
        cluster[6].stop()  # it leads nothing: never on its way out, at once gone
        leaving: set[bool] = set()
        cluster.until(
            lambda: leaving.add(cluster.image.brokers[6].in_controlled_shutdown) or not cluster[6].up
        )
        assert leaving == {False}
        cluster.start(4)
        cluster.until(lambda: in_sync(cluster, "t", 4, 5))
        assert not cluster.state("t").elr


def test_k193_an_isr_change_with_a_stale_broker_epoch_is_ineligible() -> None:
    """K193."""
    with Virtual(**SEPARATE) as cluster:
        cluster.create("t", [4, 5, 6])
        epochs = {id_: cluster.image.brokers[id_].epoch for id_ in (4, 5, 6)}
        assert wants_in_sync(cluster, "t", {**epochs, 6: epochs[6] - 1}) is ErrorCode.INELIGIBLE_REPLICA
        cluster.kill(6)
        cluster.until(lambda: cluster.image.brokers[6].fenced, 15)
        assert wants_in_sync(cluster, "t", epochs) is ErrorCode.INELIGIBLE_REPLICA
        cluster.start(6)
        cluster.until(lambda: in_sync(cluster, "t", 4, 5, 6))
        assert wants_in_sync(cluster, "t", epochs) is ErrorCode.INELIGIBLE_REPLICA  # it has another by now
        sender = wants_in_sync(cluster, "t", epochs, broker_epoch=epochs[4] - 1)
        assert sender is ErrorCode.STALE_BROKER_EPOCH


# ---- elections -------------------------------------------------------------------------------------------


def test_k194_preferred_elections_asked_for_and_by_themselves() -> None:
    """K194."""
    with Virtual(**SEPARATE, leader_imbalance_check_interval_seconds="20") as cluster:
        cluster.create("t", [4, 5, 6])
        cluster.kill(4)
        cluster.until(lambda: cluster.state("t").leader == 5, 15)
        assert cluster.elect("t") is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        cluster.start(4)
        cluster.until(lambda: in_sync(cluster, "t", 4, 5, 6))
        assert cluster.elect("t") is ErrorCode.NONE
        assert cluster.state("t").leader == 4
        assert cluster.elect("t") is ErrorCode.ELECTION_NOT_NEEDED
        cluster.kill(4)
        cluster.until(lambda: cluster.state("t").leader == 5, 15)
        cluster.start(4)
        cluster.until(lambda: cluster.state("t").leader == 4, 30)  # by itself


def test_k194_the_eligible_replica_leads_when_the_in_sync_set_is_empty() -> None:
    """K194.  Who left in order below min.insync holds everything: the first that is back leads, cleanly."""
    with Virtual(**SEPARATE, topics={"t": 1}) as cluster:
        cluster.create("t", [4, 5, 6], min_insync_replicas="3")
        for leaving in (4, 5, 6):
            cluster.stop(leaving)
            cluster.run(2)
        state = cluster.state("t")
        assert (state.isr, state.leader, set(state.elr)) == ((), NO_NODE, {4, 5, 6})
        assert state.last_known_elr == (6,)
        cluster.start(5)
        state = cluster.state("t")
        assert (state.isr, state.leader, state.recovering) == ((5,), 5, False)
        for back in (4, 6):
            cluster.start(back)
        cluster.until(lambda: in_sync(cluster, "t", 4, 5, 6))
        assert cluster.state("t").elr == ()


def test_k194_the_last_known_leader_leads_when_nobody_is_eligible() -> None:
    """K194.  Both died, so with acknowledgements from the page cache neither kept everything for sure:
    whoever led last leads."""
    with Virtual(**SEPARATE) as cluster:
        cluster.create("t", [4, 5], flush_messages=str(NO_FLUSH))
        cluster.kill(4)
        cluster.until(lambda: cluster.state("t").leader == 5, 15)
        cluster.kill(5)
        cluster.until(lambda: cluster.state("t").leader == NO_NODE, 15)
        cluster.start(4)
        cluster.run(5)
        assert cluster.state("t").leader == NO_NODE  # 4 was not the last, and unclean elections are off
        cluster.start(5)
        cluster.until(lambda: cluster.state("t").leader == 5)
        cluster.until(lambda: in_sync(cluster, "t", 4, 5))
        assert not cluster.state("t").recovering


def test_a_replica_that_lost_its_power_is_eligible_still_since_it_synced_what_it_acknowledged() -> None:
    """Found by the simulated cluster (seed 2131): a disk is lost, then all lose their power; those that hold
    everything were taken out of the sets, and the empty one led."""
    with Virtual(**SEPARATE) as cluster:
        cluster.create("t", [4, 5, 6], min_insync_replicas="2")
        cluster.run(1)
        for broker in (4, 5, 6):
            cluster[broker].power_cut("all")
        cluster[4].replace_disk()
        for back in (5, 6, 4):
            cluster.start(back)
        cluster.until(lambda: in_sync(cluster, "t", 4, 5, 6))


def test_a_page_cache_does_not_outlive_its_broker() -> None:
    """As KIP-966 asks: who may lack something is not eligible."""
    with Virtual(**SEPARATE) as cluster:
        cluster.create("t", [4, 5, 6], min_insync_replicas="2", flush_messages=str(NO_FLUSH))
        cluster.run(1)
        for broker in (4, 5, 6):
            cluster[broker].power_cut("all")
        cluster.start(5)
        cluster.start(6)
        cluster.run(3)
        state = cluster.state("t")
        assert {*state.isr, *state.elr} == {4}, "fenced by now or not: of the others nobody can lead"


def leaderless(cluster: Virtual) -> None:
    """`t` on 4 and 5: 5 led last and is down, 4 lives and lacks what 5 had."""
    cluster.create("t", [4, 5])
    cluster.kill(4)
    cluster.until(lambda: cluster.state("t").leader == 5, 15)
    cluster.kill(5)
    cluster.until(lambda: cluster.state("t").leader == NO_NODE, 15)
    cluster.start(4)
    cluster.run(2)
    assert cluster.state("t").leader == NO_NODE


@pytest.mark.parametrize("how", ["asked", "topic", "broker", "cluster"])
def test_k195_an_unclean_election_marks_the_partition_and_recovery_clears_it(how: str) -> None:
    """K195.  Asked for, or because unclean.leader.election.enable was switched on."""
    with Virtual(**SEPARATE) as cluster:
        leaderless(cluster)
        if how == "asked":
            assert cluster.elect("t", unclean=True) is ErrorCode.NONE
        else:
            active = str(cluster.controller())
            kind, name = {"topic": (2, "t"), "broker": (4, "4"), "cluster": (4, "")}[how]
            if how == "broker":
                cluster.run(1)
                assert alter(cluster, kind, name, unclean_leader_election_enable="true") == ErrorCode.NONE
                cluster.run(3)
                assert cluster.state("t").leader == NO_NODE  # the setting of a broker that is no controller
                assert active not in ("4", "5", "6")
                return
            assert alter(cluster, kind, name, unclean_leader_election_enable="true") == ErrorCode.NONE
        took = cluster.until(lambda: cluster.state("t").leader == 4, 5)
        assert took < 2
        state: PartitionState = cluster.state("t")
        assert (state.isr, state.recovering, state.elr) == ((4,), True, ())
        cluster.start(5)
        cluster.until(lambda: in_sync(cluster, "t", 4, 5))
        assert not cluster.state("t").recovering


def test_k196_the_elr_fills_below_min_insync_and_empties_above() -> None:
    """K196."""
    with Virtual(**SEPARATE) as cluster:
        cluster.create("t", [4, 5, 6], min_insync_replicas="2")
        cluster.stop(4)
        assert cluster.state("t").elr == ()
        cluster.stop(5)
        assert (cluster.state("t").isr, cluster.state("t").elr) == ((6,), (5,))
        shown = cluster.ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), at=6)
        assert shown.topics[0].partitions[0].isr_nodes == [6]
        cluster.start(5)
        cluster.until(lambda: in_sync(cluster, "t", 5, 6))
        assert cluster.state("t").elr == ()
        cluster.stop(5)
        cluster.start(5)
        cluster.kill(5)  # now it may have lost what it had not synced
        cluster.until(lambda: cluster.state("t").isr == (6,), 15)
        cluster.start(5)
        cluster.until(lambda: in_sync(cluster, "t", 5, 6))
        cluster.stop(5)
        assert cluster.state("t").elr == (5,)
        assert alter(cluster, 2, "t", min_insync_replicas="1") == ErrorCode.NONE
        assert cluster.state("t").elr == ()


# ---- partitions move -------------------------------------------------------------------------------------


def test_k197_a_partition_moves_under_load_and_nothing_is_lost() -> None:
    """K197."""
    with Virtual((4, 5, 6, 7, 8), (1, 2, 3), topics={"t": 1}) as cluster:
        cluster.create("t", [4, 5, 6])
        cluster.load()
        cluster.run(3)
        assert cluster.move("t", [7, 8, 6]) is ErrorCode.NONE
        cluster.until(lambda: not cluster.state("t").adding and not cluster.state("t").removing, 30)
        assert cluster.state("t").replicas == (7, 8, 6)
        assert cluster.state("t").leader == 7
        cluster.run(2)
        assert cluster.end(4, "t") is None  # it deleted its copy
        assert cluster.move("t", [7]) is ErrorCode.NONE  # fewer replicas
        cluster.until(lambda: cluster.state("t").replicas == (7,))
        cluster.move("t", [4, 5, 6])
        cluster.until(lambda: cluster.state("t").replicas == (4, 5, 6), 30)
        assert cluster.judge()["acknowledged"] > 20


def test_k197_a_move_waits_for_who_is_down_and_is_turned_back() -> None:
    """K197."""
    with Virtual((4, 5, 6, 7), (1, 2, 3), topics={"t": 1}) as cluster:
        cluster.create("t", [4, 5])
        cluster.load()
        cluster.kill(7)
        cluster.until(lambda: cluster.image.brokers[7].fenced, 15)
        assert cluster.move("t", [7, 6]) is ErrorCode.NONE
        cluster.run(5)
        assert cluster.state("t").adding == (6, 7)
        assert in_sync(cluster, "t", 4, 5, 6)
        assert cluster.move("t", None) is ErrorCode.NONE
        cluster.run(2)
        assert (cluster.state("t").replicas, cluster.end(6, "t")) == ((4, 5), None)
        assert cluster.move("t", None) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        cluster.start(7)
        cluster.judge()


def test_k197_the_leader_and_the_controller_die_in_the_middle_of_a_move() -> None:
    """K197."""
    with Virtual((4, 5, 6, 7), (1, 2, 3), topics={"t": 1}) as cluster:
        cluster.create("t", [4, 5, 6])
        cluster.load()
        cluster.run(2)
        cluster.cut(7)
        assert cluster.move("t", [7, 5, 6]) is ErrorCode.NONE
        cluster.run(1)
        cluster.kill(cluster.controller())
        cluster.kill(4)
        cluster.until(lambda: cluster.state("t").leader in (5, 6), 20)
        cluster.mend(7)
        cluster.until(lambda: cluster.state("t").replicas == (7, 5, 6), 30)
        cluster.start(4)
        cluster.judge()


# ---- placement, features, unregistering ------------------------------------------------------------------


def test_k198_a_hundred_partitions_are_spread_and_all_others_inherit_from_a_broker_that_dies() -> None:
    """K198."""
    brokers = (4, 5, 6, 7, 8)
    with Virtual(brokers=brokers, controllers=(1, 2, 3)) as cluster:
        cluster.place("t", 100, 3)
        led = Counter(cluster.state("t", index).leader for index in range(100))
        assert max(led.values()) - min(led.values()) <= 1
        mine = [index for index in range(100) if cluster.state("t", index).leader == 4]
        cluster.run(2)
        cluster.kill(4)
        assert cluster.until(lambda: cluster.image.brokers[4].fenced, 3) < 1
        heirs = Counter(cluster.state("t", index).leader for index in mine)
        assert set(heirs) == {5, 6, 7, 8}
        assert max(heirs.values()) <= 8
        topic = CreatePartitionsTopic(name="t", count=120, assignments=None)
        assert cluster.ask(CreatePartitionsRequest(topics=[topic])).results[0].error_code == ErrorCode.NONE
        assert all(cluster.state("t", index).leader != 4 for index in range(100, 120))
        cluster.until(
            lambda: all(
                cluster.end(5, "t", i) == 0 for i in range(120) if 5 in cluster.state("t", i).replicas
            )
        )


def test_k198_too_few_brokers_and_fenced_ones() -> None:
    """K198."""
    with Virtual(**SEPARATE) as cluster:
        cluster.run(2)
        cluster.kill(6)
        cluster.until(lambda: cluster.image.brokers[6].fenced, 15)

        def create(name: str, replicas: int) -> int:
            topic = CreatableTopic(name=name, num_partitions=3, replication_factor=replicas)
            return int(cluster.ask(CreateTopicsRequest(topics=[topic])).topics[0].error_code)

        assert create("four", 4) == ErrorCode.INVALID_REPLICATION_FACTOR
        assert create("three", 3) == ErrorCode.NONE  # the fenced one comes last, and is not in sync
        for index in range(3):
            assert cluster.state("three", index).replicas[-1] == 6
            assert in_sync(cluster, "three", 4, 5, index=index)
        cluster.start(6)
        for index in range(3):
            cluster.until(lambda index=index: in_sync(cluster, "three", 4, 5, 6, index=index))


def test_k199_features_go_up_and_down_as_a_whole_or_not_at_all() -> None:
    """K199."""
    with Virtual(**SEPARATE) as cluster:

        def update(*wanted: tuple[str, int, int], only_try: bool = False) -> ErrorCode:
            keys = [
                FeatureUpdateKey(feature=f, max_version_level=level, upgrade_type=kind)
                for f, level, kind in wanted
            ]
            answer = cluster.ask(UpdateFeaturesRequest(feature_updates=keys, validate_only=only_try))
            return ErrorCode(answer.error_code)

        up, down = 1, 2
        assert update(("group.version", 0, down), only_try=True) is ErrorCode.NONE
        assert cluster.image.feature("group.version") == 1
        refused = update(("group.version", 0, down), ("metadata.version", 99, up))
        assert refused is ErrorCode.INVALID_UPDATE_VERSION
        assert cluster.image.feature("group.version") == 1
        assert update(("group.version", 0, down)) is ErrorCode.NONE
        cluster.run(1)
        assert all("group.version" not in dict(image_levels(cluster[id_])) for id_ in (4, 5, 6))
        assert update(("group.version", 1, up)) is ErrorCode.NONE


def test_k200_an_unregistered_broker_is_out_of_every_isr_and_elr_and_may_register_again() -> None:
    """K200."""
    with Virtual(**SEPARATE) as cluster:
        cluster.create("t", [4, 5, 6], min_insync_replicas="3")
        cluster.stop(6)
        assert cluster.state("t").elr == (6,)
        assert cluster.ask(UnregisterBrokerRequest(broker_id=6)).error_code == ErrorCode.NONE
        assert 6 not in cluster.image.brokers
        assert (cluster.state("t").isr, cluster.state("t").elr) == ((4, 5), ())
        cluster.run(1)
        shown = cluster.ask(DescribeClusterRequest(include_fenced_brokers=True), at=4)
        assert {broker.broker_id for broker in shown.brokers} == {4, 5}
        gone = cluster.ask(UnregisterBrokerRequest(broker_id=6))
        assert gone.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
        cluster.start(6)
        cluster.until(lambda: in_sync(cluster, "t", 4, 5, 6))


def test_fenced_brokers_are_shown_to_who_asks_for_them() -> None:
    with Virtual(**SEPARATE) as cluster:
        cluster.stop(6)
        cluster.run(1)
        for include, ids in ((False, {4, 5}), (True, {4, 5, 6})):
            shown = cluster.ask(DescribeClusterRequest(include_fenced_brokers=include))
            assert {broker.broker_id for broker in shown.brokers} == ids
            assert {broker.broker_id for broker in shown.brokers if broker.is_fenced} == ids - {4, 5}


# ---- the controller fails over ---------------------------------------------------------------------------


def test_k201_what_a_controller_could_not_commit_is_refused_and_seen_by_nobody() -> None:
    """K201."""
    with Virtual(**SEPARATE) as cluster:
        cluster.create("t", [4, 5, 6])
        old = cluster.controller()
        others = [id_ for id_ in (1, 2, 3) if id_ != old]
        pairs = [
            pair for id_ in (*others, 4, 5, 6) for pair in ((f"n{old}", f"n{id_}"), (f"n{id_}", f"n{old}"))
        ]
        cluster.world.network.cut(pairs)
        topic = CreatableTopic(name="ghost", num_partitions=1, replication_factor=1)
        answer = cluster.begin(CreateTopicsRequest(topics=[topic]), old, controller=True)
        cluster.until(lambda: bool(answer), 20)
        assert not isinstance(answer[0], KafkaError), answer
        assert answer[0].topics[0].error_code == ErrorCode.NOT_CONTROLLER
        cluster.until(
            lambda: any(
                n.quorum is not None and n.quorum.is_active_controller for n in (cluster[i] for i in others)
            )
        )
        assert all(
            "ghost" not in node.quorum.image.topics_by_name
            for node in cluster.world.nodes.values()
            if node.quorum
        )
        cluster.world.network.mend(pairs)
        cluster.run(5)
        assert all(
            "ghost" not in node.quorum.image.topics_by_name
            for node in cluster.world.nodes.values()
            if node.quorum
        )
        cluster.create("ghost", [4])
        cluster.run(1)
        assert all(
            "ghost" in node.quorum.image.topics_by_name
            for node in cluster.world.nodes.values()
            if node.quorum
        )


def test_gauges_tell_what_moves_and_what_ails() -> None:
    with Virtual((4, 5, 6, 7), (1, 2, 3)) as cluster:
        cluster.create("t", [4, 5], [5, 4])
        cluster.run(2)
        cluster.kill(7)
        cluster.until(lambda: cluster.image.brokers[7].fenced, 15)

        def gauge(name: str, node: NodeId = 4) -> float:
            process = cluster[node].process
            assert process is not None
            return next(m.read() for m in process.runtime.metrics if m.name.endswith(f"name={name}"))  # type: ignore[attr-defined]

        assert (gauge("GlobalTopicCount"), gauge("GlobalPartitionCount")) == (1, 2)
        cluster.move("t", [7, 4])
        cluster.run(1)
        assert (gauge("ReassigningPartitions"), gauge("UnderReplicatedPartitions")) == (1, 0)
        assert gauge("PreferredReplicaImbalanceCount") == 1  # 7 is to lead
        cluster.kill(5)
        cluster.until(lambda: cluster.image.brokers[5].fenced, 15)
        cluster.run(1)
        assert gauge("UnderReplicatedPartitions") == 2  # of the two that were there
        assert gauge("OfflinePartitionsCount") == 0
        cluster.stop(4)
        cluster.run(1)
        assert gauge("OfflinePartitionsCount", 6) == 2
