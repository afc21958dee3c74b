"""AlterPartition: the controller agrees with a leader's ISR, or says which of the two is behind.

Scenarios: K193.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.controller.cluster import Cluster

from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import Uuid
from barnabas.wire.schemas.brokers import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    BrokerHeartbeatRequestIncomplete,
    BrokerState,
)


def request(cluster: Cluster, isr: list[int], *, sender: int = 1, **fields: Any) -> AlterPartitionRequest:
    state = cluster.state()
    data: dict[str, Any] = {
        "leader_epoch": state.leader_epoch,
        "partition_epoch": state.partition_epoch,
        "new_isr_with_epochs": [
            BrokerState(broker_id=broker, broker_epoch=cluster.epochs.get(broker, -1)) for broker in isr
        ],
        **fields,
    }
    topic_id = data.pop("topic_id", cluster.image.topics_by_name["flights"].id)
    return AlterPartitionRequest(
        broker_id=sender,
        broker_epoch=cluster.epochs[sender],
        topics=[
            AlterPartitionRequestTopicData(
                topic_id=topic_id, partitions=[AlterPartitionRequestPartitionData(**data)]
            )
        ],
    )


def ask(cluster: Cluster, isr: list[int], **fields: Any) -> AlterPartitionResponsePartitionData:
    answer = cluster.answer(AlterPartitionResponse, request(cluster, isr, **fields))
    return answer.topics[0].partitions[0]


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(1, 2, 3)
    cluster.assign([1, 2, 3])
    return cluster


def test_an_isr_shrinks_and_grows_and_only_the_partition_epoch_counts(cluster: Cluster) -> None:
    shrunk = ask(cluster, [1, 2])
    assert (shrunk.error_code, shrunk.isr, shrunk.leader_epoch, shrunk.partition_epoch) == (0, [1, 2], 0, 1)
    grown = ask(cluster, [1, 2, 3])
    assert (grown.isr, grown.partition_epoch) == ([1, 2, 3], 2)
    assert cluster.state().isr == (1, 2, 3)


def test_the_same_isr_again_is_agreed_to_and_not_written(cluster: Cluster) -> None:
    offset = cluster.offset
    assert ask(cluster, [1, 2, 3]).error_code == 0
    assert cluster.offset == offset


@pytest.mark.parametrize(
    ("isr", "fields", "code"),
    [
        ([1, 2], {"leader_epoch": 5}, ErrorCode.NOT_CONTROLLER),
        ([1, 2], {"partition_epoch": 5}, ErrorCode.NOT_CONTROLLER),
        ([1, 2], {"sender": 2}, ErrorCode.INVALID_REQUEST),
        ([1, 1], {}, ErrorCode.INVALID_REQUEST),
        ([1, 4], {}, ErrorCode.INVALID_REQUEST),
        ([2, 3], {}, ErrorCode.INVALID_REQUEST),
        ([1], {"leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        ([1, 2], {"topic_id": Uuid.of(9, 9)}, ErrorCode.UNKNOWN_TOPIC_ID),
        ([1, 2], {"partition_index": 5}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
    ids=str,
)
def test_a_change_that_does_not_fit_is_refused(
    cluster: Cluster, isr: list[int], fields: dict[str, Any], code: ErrorCode
) -> None:
    assert ask(cluster, isr, **fields).error_code == code


def test_a_leader_that_is_behind_is_told_so(cluster: Cluster) -> None:
    ask(cluster, [1, 2])
    assert ask(cluster, [1], partition_epoch=0).error_code == ErrorCode.INVALID_UPDATE_VERSION
    cluster.beat(1, want_fence=True)
    cluster.beat(1)
    assert ask(cluster, [1], leader_epoch=0).error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_a_fenced_broker_or_one_of_an_earlier_life_may_not_join(cluster: Cluster) -> None:
    cluster.beat(3, want_fence=True)
    assert ask(cluster, [1, 2, 3]).error_code == ErrorCode.INELIGIBLE_REPLICA
    old = [BrokerState(broker_id=1), BrokerState(broker_id=2, broker_epoch=1)]
    assert ask(cluster, [], new_isr_with_epochs=old).error_code == ErrorCode.INELIGIBLE_REPLICA


def test_a_replica_that_lacks_records_may_not_join_until_it_has_them(cluster: Cluster) -> None:
    ask(cluster, [1, 2])
    topic = cluster.image.topics_by_name["flights"].id
    lacks = [BrokerHeartbeatRequestIncomplete(topic_id=topic, partition_index=0)]
    cluster.beat(3, incomplete=lacks)
    assert ask(cluster, [1, 2, 3]).error_code == ErrorCode.INELIGIBLE_REPLICA
    cluster.beat(3)
    assert ask(cluster, [1, 2, 3]).error_code == ErrorCode.NONE


def test_a_sender_of_an_earlier_life_is_refused_as_a_whole(cluster: Cluster) -> None:
    stale = request(cluster, [1, 2])
    cluster.time += 10
    cluster.register(1, incarnation=2)
    with pytest.raises(KafkaError) as error:
        cluster.decide(stale)
    assert error.value.code == ErrorCode.STALE_BROKER_EPOCH


def test_a_leader_ends_the_recovery_of_its_partition() -> None:
    cluster = Cluster(1)
    cluster.create()
    cluster.time += 10
    cluster.register(1, incarnation=2)
    cluster.beat(1)
    assert cluster.state().recovering
    assert ask(cluster, [1]).leader_recovery_state == 0
    assert not cluster.state().recovering
