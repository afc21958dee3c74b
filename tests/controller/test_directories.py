"""Log directories: where replicas lie, what a lost one takes with it, what a cordoned one keeps out."""

from __future__ import annotations

import pytest
from tests.controller.cluster import Cluster, assigned, directory, registration

from barnabas.controller.snapshot import image_records
from barnabas.controller.versions import DIRECTORIES, LATEST, MINIMUM
from barnabas.controller.view import Decision
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import DIRECTORY_LOST, DIRECTORY_UNASSIGNED, NO_NODE, Uuid
from barnabas.raft.entries import Batch, Opaque
from barnabas.server.kraft.records import decode_batch, encode_batch, metadata_of
from barnabas.wire.codec.message import Message, MetadataRecord
from barnabas.wire.metadata import BrokerRegistrationChangeRecord, PartitionChangeRecord
from barnabas.wire.records import read_batch_header
from barnabas.wire.schemas.brokers import BrokerHeartbeatRequest, BrokerRegistrationResponse
from barnabas.wire.schemas.reassignment import (
    AlterPartitionReassignmentsRequest,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
    AssignReplicasToDirsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.wire.schemas.topics import CreateTopicsRequest

A, B = Uuid.of(1, 1000), Uuid.of(1, 2000)


@pytest.fixture
def cluster() -> Cluster:
    """Broker 1 has two directories, 2 and 3 have one; `flights` on 1, 2, 3."""
    cluster = Cluster(2, 3)
    cluster.register(1, log_dirs=[A, B])
    cluster.beat(1)
    cluster.assign([1, 2, 3], [2, 3, 1])
    return cluster


def assign(
    cluster: Cluster, where: Uuid, *indexes: int, topic: Uuid | None = None, broker: int = 1
) -> list[ErrorCode]:
    if topic is None:
        topic = cluster.image.topics_by_name["flights"].id
    partitions = [AssignReplicasToDirsRequestPartitionData(partition_index=index) for index in indexes]
    request = AssignReplicasToDirsRequest(
        broker_id=broker,
        broker_epoch=cluster.epochs[broker],
        directories=[
            AssignReplicasToDirsRequestDirectoryData(
                id=where,
                topics=[AssignReplicasToDirsRequestTopicData(topic_id=topic, partitions=partitions)],
            )
        ],
    )
    answer = cluster.answer(AssignReplicasToDirsResponse, request)
    (found,) = answer.directories
    assert found.id == where
    return [ErrorCode(row.error_code) for t in found.topics for row in t.partitions]


def test_a_broker_says_where_its_replicas_lie(cluster: Cluster) -> None:
    assert cluster.state().directory_of(1) == DIRECTORY_UNASSIGNED
    assert assign(cluster, A, 0) == [ErrorCode.NONE]
    state = cluster.state()
    assert state.directories == (A, directory(2), directory(3))
    assert (state.leader, state.leader_epoch, state.isr) == (1, 0, (1, 2, 3))
    offset = cluster.offset
    assert assign(cluster, A, 0) == [ErrorCode.NONE]
    assert cluster.offset == offset


def test_what_is_not_its_own_is_refused_by_partition(cluster: Cluster) -> None:
    cluster.assign([2, 3], name="theirs")
    theirs = cluster.image.topics_by_name["theirs"].id
    assert assign(cluster, A, 0, 9) == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert assign(cluster, A, 0, topic=Uuid.of(7, 7)) == [ErrorCode.UNKNOWN_TOPIC_ID]
    assert assign(cluster, A, 0, topic=theirs) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    cluster.epochs[1] += 1
    with pytest.raises(KafkaError) as refused:
        assign(cluster, A, 0)
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_a_lost_directory_takes_only_its_own_replicas_out(cluster: Cluster) -> None:
    assign(cluster, A, 0)
    assign(cluster, B, 1)
    cluster.beat(1, offline_log_dirs=[A])
    assert cluster.image.brokers[1].directories == (B,)
    assert (cluster.state(index=0).leader, cluster.state(index=0).isr) == (2, (2, 3))
    assert cluster.state(index=1).isr == (2, 3, 1)
    offset = cluster.offset
    cluster.beat(1, offline_log_dirs=[A])
    assert cluster.offset == offset


@pytest.mark.parametrize("where", [Uuid.of(9, 9), DIRECTORY_LOST])
def test_a_replica_in_no_online_directory_is_out_of_sync(cluster: Cluster, where: Uuid) -> None:
    assert assign(cluster, where, 0, 1) == [ErrorCode.NONE, ErrorCode.NONE]
    assert (cluster.state().isr, cluster.state().leader) == ((2, 3), 2)
    assert cluster.state().directory_of(1) == where


def test_a_replica_found_in_an_online_directory_may_lead_again() -> None:
    cluster = Cluster()
    cluster.register(1, log_dirs=[A, B])
    cluster.beat(1)
    cluster.assign([1])
    assign(cluster, A, 0)
    cluster.beat(1, offline_log_dirs=[A])
    assert cluster.state().leader == NO_NODE
    assert assign(cluster, B, 0) == [ErrorCode.NONE]
    assert (cluster.state().leader, cluster.state().isr) == (1, (1,))


def test_a_cordoned_broker_gets_nothing_new_until_it_is_free_again(cluster: Cluster) -> None:
    cluster.beat(1, cordoned_log_dirs=[A, B])
    assert set(cluster.image.brokers[1].cordoned) == {A, B}
    offset = cluster.offset
    cluster.beat(1, cordoned_log_dirs=[B, A])
    assert cluster.offset == offset
    cluster.create("elsewhere", partitions=6, replicas=2)
    assert all(1 not in cluster.state("elsewhere", index).replicas for index in range(6))
    cluster.beat(1, cordoned_log_dirs=[])
    assert cluster.image.brokers[1].cordoned == ()
    cluster.create("everywhere", partitions=6, replicas=3)
    assert all(1 in cluster.state("everywhere", index).replicas for index in range(6))


def test_old_clusters_know_neither(cluster: Cluster) -> None:
    cluster.image.features["metadata.version"] = 16
    with pytest.raises(KafkaError) as refused:
        assign(cluster, A, 0)
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION
    offset = cluster.offset
    cluster.beat(1, cordoned_log_dirs=[A])
    assert cluster.offset == offset


def test_the_broker_change_comes_after_the_partitions(cluster: Cluster) -> None:
    """As in Apache Kafka: whoever replays it finds the partitions already moved."""
    assign(cluster, A, 0)
    request = BrokerHeartbeatRequest(
        broker_id=1,
        broker_epoch=cluster.epochs[1],
        current_metadata_offset=cluster.offset - 1,
        offline_log_dirs=[A],
    )
    kinds = [type(record) for record in cluster.decide(request).records]
    assert kinds == [PartitionChangeRecord, BrokerRegistrationChangeRecord]


def test_a_broker_that_is_back_without_a_disk_leads_nothing_of_what_lay_there() -> None:
    """Its disk hung for longer than its session; the heartbeat that ends the silence tells of the disk too."""
    cluster = Cluster(2, min_insync_replicas="2")
    cluster.register(1, log_dirs=[A, B])
    cluster.beat(1)
    cluster.assign([1, 2], [1, 2])
    assign(cluster, A, 0)
    assign(cluster, B, 1)
    for broker in (2, 1):
        cluster.beat(broker, want_fence=True)
    assert cluster.state().leader == NO_NODE
    cluster.beat(1, offline_log_dirs=[A])
    cluster.beat(1, offline_log_dirs=[A])
    assert not cluster.image.brokers[1].fenced
    assert [cluster.state(index=index).leader for index in (0, 1)] == [NO_NODE, 1]
    cluster.beat(2)
    assert [cluster.state(index=index).leader for index in (0, 1)] == [2, 1]


@pytest.mark.parametrize("level", [MINIMUM, DIRECTORIES - 1, DIRECTORIES, LATEST])
def test_every_decision_and_the_snapshot_can_be_written_at_every_metadata_version(level: int) -> None:
    """What cannot be written ends the controller, and the next one: directories are named from 3.7 on."""
    cluster = Cluster(elr=False)
    cluster.image.features["metadata.version"] = level
    written: list[MetadataRecord] = []

    def commit(request: Message) -> Decision:
        decision = cluster.commit(request)
        written.extend(decision.records)
        return decision

    for broker in (1, 2):
        answer = commit(
            registration(broker, 1, None, log_dirs=[directory(broker), Uuid.of(broker, 2000)])
        ).answer
        assert isinstance(answer, BrokerRegistrationResponse)
        cluster.epochs[broker] = answer.broker_epoch
        cluster.beat(broker)
    commit(CreateTopicsRequest(topics=[assigned("flights", [1, 2], [2, 1])]))
    cluster.beat(1, offline_log_dirs=[directory(1)])
    row = ReassignablePartition(partition_index=0, replicas=[2])
    topic = ReassignableTopic(name="flights", partitions=[row])
    commit(AlterPartitionReassignmentsRequest(topics=[topic]))
    everything = (*written, *image_records(cluster.image))
    batch = Batch(0, 1, (Opaque(everything, len(everything)),))
    raw = encode_batch(batch, timestamp_ms=0, metadata_version=level)
    read = decode_batch(raw, 0, read_batch_header(raw))
    assert len(metadata_of(read)) == len(everything)
    assert bool(cluster.image.brokers[1].directories) is (level >= DIRECTORIES)


def test_a_broker_that_registered_before_directories_were_named_keeps_its_replicas(cluster: Cluster) -> None:
    cluster.image.brokers[1] = cluster.image.brokers[1]._replace(directories=())
    assert assign(cluster, A, 0) == [ErrorCode.NONE]
    assert (cluster.state().leader, cluster.state().isr, cluster.state().directory_of(1)) == (1, (1, 2, 3), A)
    cluster.beat(2, want_fence=True)
    assert cluster.state().leader == 1
