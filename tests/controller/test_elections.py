"""ElectLeaders: preferred leaders back in place, unclean ones where nobody leads, and what is refused.

Scenarios: K194, K195.
"""

from __future__ import annotations

import pytest
from tests.controller.cluster import Cluster, directory

from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import NO_NODE
from barnabas.wire.metadata import PartitionChangeRecord
from barnabas.wire.schemas.brokers import (
    BrokerHeartbeatRequestIncomplete,
    BrokerHeartbeatRequestLeaderless,
    BrokerHeartbeatRequestRefused,
)
from barnabas.wire.schemas.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from barnabas.wire.schemas.reassignment import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions

PREFERRED, UNCLEAN = 0, 1


@pytest.fixture
def cluster() -> Cluster:
    """`flights` on 1, 2, 3 (led by 1) and on 2, 3, 1 (led by 2)."""
    cluster = Cluster(1, 2, 3)
    cluster.assign([1, 2, 3], [2, 3, 1])
    return cluster


def change(cluster: Cluster, index: int, **fields: object) -> None:
    topic = cluster.image.topics_by_name["flights"].id
    record = PartitionChangeRecord(topic_id=topic, partition_id=index, **fields)  # type: ignore[arg-type]
    cluster.append([record])


def elect(
    cluster: Cluster, election: int, asked: dict[str, list[int]] | None
) -> dict[tuple[str, int], ErrorCode]:
    topics = None
    if asked is not None:
        topics = [TopicPartitions(topic=name, partitions=found) for name, found in asked.items()]
    request = ElectLeadersRequest(election_type=election, topic_partitions=topics)
    answer = cluster.answer(ElectLeadersResponse, request)
    assert answer.error_code == 0
    return {
        (topic.topic, row.partition_id): ErrorCode(row.error_code)
        for topic in answer.replica_election_results
        for row in topic.partition_result
    }


def test_the_first_replica_leads_again_when_it_is_in_sync(cluster: Cluster) -> None:
    change(cluster, 0, leader=3)
    epoch = cluster.state().leader_epoch
    assert elect(cluster, PREFERRED, {"flights": [0, 1]}) == {
        ("flights", 0): ErrorCode.NONE,
        ("flights", 1): ErrorCode.ELECTION_NOT_NEEDED,
    }
    assert (cluster.state().leader, cluster.state().leader_epoch) == (1, epoch + 1)


def test_a_first_replica_that_is_behind_does_not_lead(cluster: Cluster) -> None:
    change(cluster, 0, leader=3, isr=[2, 3])
    offset = cluster.offset
    assert elect(cluster, PREFERRED, {"flights": [0]}) == {
        ("flights", 0): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    }
    assert (cluster.state().leader, cluster.offset) == (3, offset)


def test_asked_about_everything_only_what_is_to_be_done_is_told(cluster: Cluster) -> None:
    change(cluster, 1, leader=1)
    assert elect(cluster, PREFERRED, None) == {("flights", 1): ErrorCode.NONE}
    assert elect(cluster, PREFERRED, None) == {}


def test_an_unclean_election_takes_place_only_where_nobody_leads(cluster: Cluster) -> None:
    change(cluster, 0, leader=NO_NODE, isr=[])
    assert elect(cluster, UNCLEAN, {"flights": [0, 1]}) == {
        ("flights", 0): ErrorCode.NONE,
        ("flights", 1): ErrorCode.ELECTION_NOT_NEEDED,
    }
    state = cluster.state()
    assert (state.leader, state.isr, state.recovering) == (1, (1,), True)


def test_where_no_replica_lives_nobody_is_elected(cluster: Cluster) -> None:
    cluster.time += 60  # their sessions are long over: new lives may register, and are fenced
    for broker in (1, 2, 3):
        cluster.register(broker, incarnation=2)
    change(cluster, 0, leader=NO_NODE, isr=[])
    assert elect(cluster, UNCLEAN, {"flights": [0]}) == {
        ("flights", 0): ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    }


def test_what_does_not_exist_is_told_by_partition_and_an_unknown_election_is_refused(
    cluster: Cluster,
) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert elect(cluster, PREFERRED, {"flights": [7], "none": [0]}) == {
        ("flights", 7): unknown,
        ("none", 0): unknown,
    }
    with pytest.raises(KafkaError) as refused:
        elect(cluster, 5, None)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def ended(cluster: Cluster, broker: int, epoch: int, end: int) -> None:
    """A broker says up to where its log of the first partition is whole."""
    topic = cluster.image.topics_by_name["flights"].id
    row = BrokerHeartbeatRequestLeaderless(
        topic_id=topic, partition_index=0, leader_epoch=epoch, end_offset=end
    )
    cluster.beat(broker, leaderless=[row])


def test_the_replica_whose_log_goes_furthest_is_elected_by_an_operators_word_who_is_told_before(
    cluster: Cluster,
) -> None:
    change(cluster, 0, leader=NO_NODE, isr=[])
    ended(cluster, 1, 3, 90)
    ended(cluster, 2, 4, 80)
    ended(cluster, 3, 4, 85)
    offset = cluster.offset
    asked = [TopicPartitions(topic="flights", partitions=[0, 1])]
    answer = cluster.answer(
        ElectLeadersResponse, ElectLeadersRequest(election_type=101, topic_partitions=asked)
    )
    told, led = answer.replica_election_results[0].partition_result
    assert [(r.broker_id, r.alive, r.leader_epoch, r.end_offset, r.leads) for r in told.replicas] == [
        (1, True, 3, 90, False),
        (2, True, 4, 80, False),
        (3, True, 4, 85, True),
    ]
    assert led.replicas == [] and led.error_code == ErrorCode.ELECTION_NOT_NEEDED
    assert cluster.offset == offset, "it only tells"
    assert elect(cluster, UNCLEAN, {"flights": [0]}) == {("flights", 0): ErrorCode.NONE}
    assert (cluster.state().leader, cluster.state().isr, cluster.state().recovering) == (3, (3,), True)


# By itself.


def due(cluster: Cluster) -> int:
    """Let the controller do what is due; how many records that took."""
    records = cluster.controller.due_records(cluster.now, cluster.offset)
    cluster.append(records)
    return len(records)


def wait(cluster: Cluster, seconds: float) -> None:
    cluster.time += seconds
    for broker in cluster.epochs:
        cluster.beat(broker)


def test_leaderships_go_back_to_first_replicas_every_five_minutes(cluster: Cluster) -> None:
    change(cluster, 0, leader=2)
    change(cluster, 1, leader=3, isr=[3, 1])  # 2 is behind
    wait(cluster, 299)
    assert due(cluster) == 0
    wait(cluster, 2)
    assert due(cluster) == 1
    assert (cluster.state(index=0).leader, cluster.state(index=1).leader) == (1, 3)
    change(cluster, 1, isr=[3, 1, 2])
    wait(cluster, 298)
    assert due(cluster) == 0
    wait(cluster, 3)
    assert due(cluster) == 1
    assert cluster.state(index=1).leader == 2


def test_a_returning_broker_gets_its_share_of_leaderships_back_and_no_more() -> None:
    cluster = Cluster(1, 2, 3, 4)
    cluster.create(partitions=40, replicas=3)
    before = [cluster.state(index=index).leader for index in range(40)]
    cluster.beat(1, want_fence=True)
    cluster.beat(1)
    for index in range(40):
        state = cluster.state(index=index)
        if state.isr != state.replicas:
            change(cluster, index, isr=list(state.replicas))
    wait(cluster, 301)
    assert due(cluster) == before.count(1)
    assert [cluster.state(index=index).leader for index in range(40)] == before


def test_balancing_is_switched_off_by_a_setting_and_has_its_interval(cluster: Cluster) -> None:
    off = Cluster(1, 2, auto_leader_rebalance_enable="false")
    often = Cluster(1, 2, leader_imbalance_check_interval_seconds="5")
    for one in (off, often):
        one.assign([1, 2])
        change(one, 0, leader=2)
        wait(one, 6)
    assert (due(off), due(often)) == (0, 1)


def test_a_thousand_leaderships_move_at_once_and_the_rest_right_after() -> None:
    cluster = Cluster(1, 2)
    cluster.assign(*([[1, 2]] * 1500))
    cluster.beat(1, want_fence=True)
    cluster.beat(1)
    for index in range(1500):
        change(cluster, index, isr=[2, 1])
    wait(cluster, 301)
    assert [due(cluster), due(cluster), due(cluster)] == [1000, 500, 0]


def lose(cluster: Cluster) -> None:
    """1 leads alone and is gone; 2 lives but lacks records."""
    change(cluster, 0, leader=1, isr=[1])
    cluster.beat(1, want_fence=True)
    assert cluster.state().leader == NO_NODE


@pytest.mark.parametrize("elr", [True, False])
@pytest.mark.parametrize("resource", [(2, "flights"), (4, ""), (4, "1")])
def test_switching_unclean_elections_on_elects_at_once(elr: bool, resource: tuple[int, str]) -> None:
    """On the topic, on all brokers, and on the broker that is the active controller too (node 1)."""
    cluster = Cluster(1, 2, 3, elr=elr)
    cluster.assign([1, 2, 3])
    due(cluster)
    lose(cluster)
    assert due(cluster) == 0
    setting = IncrementalAlterConfigsRequestAlterableConfig(
        name="unclean.leader.election.enable", config_operation=0, value="true"
    )
    asked = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=resource[0], resource_name=resource[1], configs=[setting]
    )
    answer = cluster.answer(
        IncrementalAlterConfigsResponse, IncrementalAlterConfigsRequest(resources=[asked])
    )
    assert answer.responses[0].error_code == 0
    assert due(cluster) == 1
    state = cluster.state()
    assert (state.leader, state.isr, state.recovering, state.elr) == (2, (2,), True, ())
    assert due(cluster) == 0


@pytest.mark.parametrize("elr", [True, False])
def test_where_unclean_elections_are_allowed_a_lost_leader_is_replaced_in_the_same_record(elr: bool) -> None:
    cluster = Cluster(1, 2, elr=elr)
    cluster.assign([1, 2], unclean_leader_election_enable="true")
    change(cluster, 0, isr=[1])
    offset = cluster.offset
    cluster.beat(1, want_fence=True)
    assert (cluster.state().leader, cluster.state().isr, cluster.state().recovering) == (2, (2,), True)
    assert cluster.offset == offset + 2


# A replica that lacks records.


def lacking(cluster: Cluster, *indexes: int) -> list[BrokerHeartbeatRequestIncomplete]:
    topic = cluster.image.topics_by_name["flights"].id
    return [BrokerHeartbeatRequestIncomplete(topic_id=topic, partition_index=index) for index in indexes]


def test_a_replica_that_lacks_records_neither_leads_nor_counts_where_another_has_them() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.assign([1, 2, 3], [2, 1, 3], [1, 2, 3], **{"min.insync.replicas": "3"})
    cluster.beat(1, incomplete=lacking(cluster, 0, 1))
    led, followed, whole = (cluster.state(index=index) for index in range(3))
    assert (led.leader, led.isr, led.elr) == (2, (2, 3), ())
    assert (followed.leader, followed.isr, followed.elr) == (2, (2, 3), ())
    assert (whole.leader, whole.isr) == (1, (1, 2, 3))


def test_an_eligible_replica_leads_in_place_of_the_last_one_in_sync_that_lacks_records() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.assign([1, 2, 3], **{"min.insync.replicas": "2"})
    change(cluster, 0, isr=[1], eligible_leader_replicas=[2])
    cluster.beat(1, incomplete=lacking(cluster, 0))
    assert (cluster.state().leader, cluster.state().isr, cluster.state().elr) == (2, (2,), ())


def test_a_replica_that_lacks_records_stays_where_nobody_else_has_them() -> None:
    cluster = Cluster(1, 2)
    cluster.assign([1, 2])
    cluster.beat(2, incomplete=lacking(cluster, 0))
    cluster.beat(1, incomplete=lacking(cluster, 0))
    assert (cluster.state().leader, cluster.state().isr) == (1, (1,)), "the second was taken out before"
    assert cluster.state().elr == ()


def refused(cluster: Cluster, index: int, epoch: int) -> list[BrokerHeartbeatRequestRefused]:
    topic = cluster.image.topics_by_name["flights"].id
    return [BrokerHeartbeatRequestRefused(topic_id=topic, partition_index=index, leader_epoch=epoch)]


@pytest.mark.parametrize(("isr", "elr"), [((1, 2, 3), ()), ((1,), (3,)), ((1,), (2, 3))])
def test_a_replica_leads_in_place_of_a_leader_that_would_have_it_cut_what_was_committed(
    isr: tuple[int, ...], elr: tuple[int, ...]
) -> None:
    cluster = Cluster(1, 2, 3)
    cluster.assign([1, 2, 3], **{"min.insync.replicas": "3"})
    change(cluster, 0, isr=list(isr), eligible_leader_replicas=list(elr))
    for killed in (2, 3):
        cluster.beat(killed, unclean_stop=True)
    cluster.beat(3, unclean_stop=True, refused=refused(cluster, 0, cluster.state().leader_epoch))
    assert cluster.state().leader == 3 and 1 not in (*cluster.state().isr, *cluster.state().elr)


def test_nobody_is_deposed_by_a_replica_that_counts_for_nothing_or_speaks_of_an_earlier_leader() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.assign([1, 2, 3])
    epoch = cluster.state().leader_epoch
    change(cluster, 0, isr=[1, 2])
    cluster.beat(3, refused=refused(cluster, 0, epoch))
    cluster.beat(2, refused=refused(cluster, 0, epoch - 1))
    assert cluster.state().leader == 1


# A disk that is full or slow.


def test_a_full_disk_gives_its_leaderships_away_and_stops_nobody() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.assign([1, 2, 3], [2, 1, 3], **{"min.insync.replicas": "2"})
    cluster.beat(1, unfit_log_dirs=[directory(1)])
    moved, other = cluster.state(), cluster.state(index=1)
    assert (moved.leader, moved.isr) == (2, (2, 3))
    assert (other.leader, other.isr) == (2, (2, 1, 3)), "where it follows its leader sees to it"


def test_who_gives_leaderships_away_is_told_by_which_metadata_others_have_them() -> None:
    cluster = Cluster(1, 2)
    cluster.assign([1, 2])
    answer = cluster.beat(1, unfit_log_dirs=[directory(1)])
    assert answer.given_away == cluster.image.offset
    assert cluster.beat(1, unfit_log_dirs=[directory(1)]).given_away == cluster.beat(2).given_away == -1


def test_a_full_disk_stays_in_sync_where_too_few_others_are() -> None:
    cluster = Cluster(1, 2)
    cluster.assign([1, 2], **{"min.insync.replicas": "2"})
    cluster.beat(1, unfit_log_dirs=[directory(1)])
    assert (cluster.state().leader, cluster.state().isr) == (2, (1, 2))


def test_a_full_disk_keeps_what_nobody_else_could_lead_better() -> None:
    cluster = Cluster(1, 2)
    cluster.assign([1, 2], [1, 2])
    cluster.beat(2, unfit_log_dirs=[directory(2)])
    cluster.beat(1, unfit_log_dirs=[directory(1)])
    assert [cluster.state(index=index).leader for index in (0, 1)] == [1, 1]


def test_two_slow_disks_do_not_hand_leaderships_to_and_fro_when_the_controller_changes() -> None:
    """A new controller knows of no disk that is unfit before it has heard from its broker."""
    cluster = Cluster(1, 2)
    cluster.assign([1, 2], [2, 1])
    for broker in (1, 2, 1, 2):
        cluster.beat(broker, unfit_log_dirs=[directory(broker)])
    before = [cluster.state(index=index).leader for index in (0, 1)]
    assert before == [2, 2], "1 spoke first, when 2 was not known to be slow"
    cluster.new_controller()
    for broker in (2, 1, 2, 1):
        cluster.beat(broker, unfit_log_dirs=[directory(broker)])
        assert [cluster.state(index=index).leader for index in (0, 1)] == before


def test_a_slow_disk_waits_for_the_first_report_of_who_could_lead_instead() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.assign([1, 2, 3])
    cluster.new_controller()
    cluster.beat(1, unfit_log_dirs=[directory(1)])
    assert cluster.state().leader == 1
    cluster.beat(3)
    cluster.beat(1, unfit_log_dirs=[directory(1)])
    assert cluster.state().leader == 3


def test_only_what_lies_on_the_full_disk_is_given_away() -> None:
    cluster = Cluster(1, 2)
    cluster.assign([1, 2])
    cluster.beat(1, unfit_log_dirs=[directory(9)])
    assert cluster.state().leader == 1


def test_a_full_disk_is_elected_only_where_no_other_is_in_sync() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.assign([1, 2, 3], [1, 2, 3])
    change(cluster, 1, isr=[1, 2])
    cluster.beat(2, unfit_log_dirs=[directory(2)])
    cluster.beat(1, want_fence=True)
    assert [cluster.state(index=index).leader for index in (0, 1)] == [3, 2]


def test_leaderships_go_back_once_there_is_room() -> None:
    cluster = Cluster(1, 2)
    cluster.assign([1, 2], **{"min.insync.replicas": "2"})
    cluster.beat(1, unfit_log_dirs=[directory(1)])
    asked = {"flights": [0]}
    assert list(elect(cluster, PREFERRED, asked).values()) == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]
    cluster.beat(1)
    assert list(elect(cluster, PREFERRED, asked).values()) == [ErrorCode.NONE]
    assert cluster.state().leader == 1
