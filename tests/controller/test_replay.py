"""Replaying: logs of Apache Kafka give the image that Kafka's own shell shows; broken ones are refused.

Scenarios: K187.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import pytest
from tests.controller import kafka

from barnabas.controller.image import BrokerEndpoint, MetadataImage, PartitionState
from barnabas.controller.replay import Replay, ReplayError
from barnabas.controller.snapshot import image_from, image_records
from barnabas.controller.versions import record_version
from barnabas.model import Uuid
from barnabas.server.kraft.records import metadata_of, read_snapshot
from barnabas.wire.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    EndTransactionRecord,
    EntityData,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
    read_record,
    write_record,
)
from barnabas.wire.records import batches, read_records

ID = Uuid.of(7, 7)
D1, D2 = Uuid.of(1, 1000), Uuid.of(1, 2000)


def apply(image: MetadataImage, *records: object) -> Replay:
    replay = Replay(image)
    replay.apply(list(records), offset=image.offset + 1, epoch=1, timestamp_ms=5)  # type: ignore[arg-type]
    return replay


def topic(*, partitions: int = 1) -> list[object]:
    made: list[object] = [TopicRecord(name="flights", topic_id=ID)]
    made += (
        PartitionRecord(
            partition_id=index,
            topic_id=ID,
            replicas=[1, 2],
            isr=[1, 2],
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
            directories=[D1, D2],
        )
        for index in range(partitions)
    )
    return made


# What Apache Kafka says of its own log.


def shell_lines(image: MetadataImage) -> Iterator[str]:
    """The facts of an image as Kafka's metadata shell words them."""
    for broker in image.brokers.values():
        yield (
            f"BrokerRegistration(id={broker.id}, epoch={broker.epoch}, incarnationId={broker.incarnation}, "
            f"listeners=[{endpoints(broker.endpoints)}], "
            f"supportedFeatures={{{ranges(broker.features.items())}}}, "
            f"rack=Optional.empty, fenced={lower(broker.fenced)}, "
            f"inControlledShutdown={lower(broker.in_controlled_shutdown)}, isMigratingZkBroker=false, "
            f"directories=[{listed(broker.directories)}], cordonedDirectories=[{listed(broker.cordoned)}])"
        )
    for controller in image.controllers.values():
        yield (
            f"ControllerRegistration(id={controller.id}, incarnationId={controller.incarnation}, "
            f"zkMigrationReady=false, listeners=[{endpoints(controller.endpoints)}], "
            f"supportedFeatures={{{ranges(controller.features.items())}}})"
        )
    for known in image.topics.values():
        for state in known.partitions.values():
            yield partition_line(state)
        yield str(known.id)
        yield known.name
    time = datetime.fromtimestamp(image.timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
    yield f"offset {image.offset}, epoch {image.epoch}, time {time.removesuffix('+00:00')}Z[UTC]"


def partition_line(state: PartitionState) -> str:
    return (
        f"PartitionRegistration(replicas=[{listed(state.replicas)}], "
        f"directories=[{listed(state.directories)}], isr=[{listed(state.isr)}], "
        f"removingReplicas=[{listed(state.removing)}], addingReplicas=[{listed(state.adding)}], "
        f"elr=[{listed(state.elr)}], lastKnownElr=[{listed(state.last_known_elr)}], leader={state.leader}, "
        f"leaderRecoveryState={'RECOVERING' if state.recovering else 'RECOVERED'}, "
        f"leaderEpoch={state.leader_epoch}, partitionEpoch={state.partition_epoch})"
    )


def endpoints(found: tuple[BrokerEndpoint, ...]) -> str:
    return ", ".join(
        f"Endpoint(listenerName='{e.listener}', securityProtocol=PLAINTEXT, host='{e.host}', port={e.port})"
        for e in found
    )


def ranges(features: Iterable[tuple[str, tuple[int, int]]]) -> str:
    return ", ".join(f"{name}: {low}-{high}" for name, (low, high) in sorted(features))


def listed(values: Iterable[object]) -> str:
    return ", ".join(map(str, values))


def lower(value: bool) -> str:
    return str(value).lower()


def test_replaying_a_log_of_kafka_gives_the_image_that_its_own_shell_shows() -> None:
    image = kafka.replayed("add-remove.log")
    shown = [line.strip() for line in kafka.read("metadata-shell.txt").decode().splitlines()]
    for line in shell_lines(image):
        assert line in shown
    assert sum(line.startswith("BrokerRegistration(") for line in shown) == len(image.brokers) == 3
    assert sum(line.startswith("ControllerRegistration(") for line in shown) == len(image.controllers) == 4
    levels = {
        line.removeprefix("finalized_").rstrip(":"): int(shown[number + 1])
        for number, line in enumerate(shown)
        if line.startswith("finalized_")
    }
    assert image.features == {**levels, "metadata.version": 30}
    assert image.cluster_config() == {"min.insync.replicas": "2"}


@pytest.mark.parametrize("offset", [45, 58])
def test_a_log_replayed_up_to_a_snapshot_of_kafka_equals_that_snapshot(offset: int) -> None:
    content = read_snapshot(kafka.read(f"000000000000000000{offset}-0000000001.checkpoint"))
    of_snapshot = image_from(
        content.records,
        cluster_id=kafka.CLUSTER,
        end_offset=offset,
        epoch=1,
        timestamp_ms=content.last_contained_ms,
    )
    of_log = kafka.replayed("snapshotted.log", below=offset)
    assert (of_log.offset, of_log.epoch, of_log.timestamp_ms) == (offset - 1, 1, content.last_contained_ms)
    for part in ("offset", "epoch", "brokers", "controllers", "topics", "configs", "features"):
        assert getattr(of_snapshot, part) == getattr(of_log, part), part


def test_an_image_as_records_makes_the_same_image_again() -> None:
    image = kafka.replayed("add-remove.log")
    apply(
        image,
        ProducerIdsRecord(broker_id=1, broker_epoch=15, next_producer_id=3000),
        ClientQuotaRecord(
            entity=[
                EntityData(entity_type="user", entity_name="ann"),
                EntityData(entity_type="client-id", entity_name=None),
            ],
            key="producer_byte_rate",
            value=1e6,
        ),
        ConfigRecord(resource_type=2, resource_name="first", name="retention.ms", value="1"),
        PartitionChangeRecord(
            partition_id=0,
            topic_id=image.topics_by_name["first"].id,
            isr=[2],
            leader=2,
            eligible_leader_replicas=[1, 3],
            leader_recovery_state=1,
        ),
    )
    again = image_from(
        image_records(image),
        cluster_id=image.cluster_id,
        end_offset=image.offset + 1,
        epoch=1,
        timestamp_ms=5,
    )
    for part in (*MetadataImage.__slots__,):
        assert getattr(again, part) == getattr(image, part), part


def test_records_written_by_us_at_the_level_of_kafka_have_the_bytes_that_kafka_wrote() -> None:
    data = kafka.read("add-remove.log")
    values = [
        record.value or b""
        for position, header in batches(data)
        if not header.is_control
        for record in read_records(data, position, header, 1 << 20)
    ]
    assert len(values) > 250
    for value in values:
        message = read_record(value)
        assert write_record(message, record_version(message, 30)) == value


# What each record does.


def test_a_partition_change_leaves_what_it_does_not_name_and_counts_the_partition_epoch() -> None:
    image = MetadataImage()
    apply(image, *topic(), PartitionChangeRecord(partition_id=0, topic_id=ID, isr=[2]))
    state = image.partition("flights", 0)
    assert state == PartitionState(0, (1, 2), (2,), 1, 0, 1, (D1, D2))


def test_a_change_that_names_a_leader_counts_the_leader_epoch_even_for_the_same_leader() -> None:
    image = MetadataImage()
    apply(image, *topic(), PartitionChangeRecord(partition_id=0, topic_id=ID, leader=1))
    state = image.partition("flights", 0)
    assert state is not None
    assert (state.leader, state.leader_epoch, state.partition_epoch) == (1, 1, 1)


def test_replicas_that_change_without_directories_keep_theirs_and_new_ones_have_none() -> None:
    image = MetadataImage()
    apply(image, *topic(), PartitionChangeRecord(partition_id=0, topic_id=ID, replicas=[2, 3]))
    state = image.partition("flights", 0)
    assert state is not None
    assert state.directories == (D2, Uuid.of(0, 0))


def test_removing_a_topic_takes_its_settings_along_and_the_delta_keeps_it_as_it_was() -> None:
    image = MetadataImage()
    apply(
        image,
        *topic(partitions=2),
        ConfigRecord(resource_type=2, resource_name="flights", name="retention.ms", value="1"),
    )
    replay = apply(image, RemoveTopicRecord(topic_id=ID))
    delta = replay.take_delta()
    assert image.topic("flights") is None
    assert not image.topic_config("flights")
    assert [len(topic.partitions) for topic in delta.topics_deleted.values()] == [2]
    assert list(delta.changed_partitions()) == []


def test_a_topic_created_and_removed_in_one_commit_leaves_no_trace_in_the_delta() -> None:
    replay = apply(MetadataImage(), *topic(), RemoveTopicRecord(topic_id=ID))
    assert replay.take_delta().empty


def test_the_delta_names_a_partition_once_with_the_state_before_the_first_change() -> None:
    image = MetadataImage()
    replay = apply(image, *topic())
    assert [before for _, _, before in replay.take_delta().changed_partitions()] == [None]
    before = image.partition("flights", 0)
    replay.apply(
        [
            PartitionChangeRecord(partition_id=0, topic_id=ID, isr=[2]),
            PartitionChangeRecord(partition_id=0, topic_id=ID, isr=[1, 2]),
        ],
        offset=9,
        epoch=1,
        timestamp_ms=5,
    )
    [(_, now, was)] = replay.take_delta().changed_partitions()
    assert was == before
    assert now.partition_epoch == 2


def test_a_no_op_moves_the_offset_and_nothing_that_a_reader_sees() -> None:
    image = MetadataImage()
    replay = apply(image, NoOpRecord(), NoOpRecord())
    assert image.offset == 1
    assert replay.take_delta().empty


def test_a_metadata_transaction_is_seen_at_its_end_and_not_before() -> None:
    image = MetadataImage()
    replay = apply(image, BeginTransactionRecord(name="x"), *topic())
    assert replay.in_transaction
    assert image.topic("flights") is None
    assert image.offset == 2
    replay.apply([EndTransactionRecord()], offset=3, epoch=1, timestamp_ms=5)
    assert image.topic("flights") is not None


def test_an_aborted_metadata_transaction_is_never_seen() -> None:
    image = MetadataImage()
    replay = apply(image, BeginTransactionRecord(name="x"), *topic(), AbortTransactionRecord(reason="y"))
    assert image.topic("flights") is None
    assert replay.take_delta().empty


def test_a_setting_without_a_value_is_removed_and_so_is_the_last_resource_that_had_none_left() -> None:
    image = MetadataImage()
    record = {"resource_type": 4, "resource_name": "", "name": "a"}
    apply(image, ConfigRecord(**record, value="1"))  # type: ignore[arg-type]
    assert image.cluster_config() == {"a": "1"}
    apply(image, ConfigRecord(**record, value=None))  # type: ignore[arg-type]
    assert image.configs == {}


def test_a_feature_level_of_zero_is_no_level_and_kraft_version_is_not_ours_to_keep() -> None:
    image = MetadataImage()
    apply(
        image,
        FeatureLevelRecord(name="group.version", feature_level=1),
        FeatureLevelRecord(name="kraft.version", feature_level=1),
    )
    assert image.features == {"group.version": 1}
    apply(image, FeatureLevelRecord(name="group.version", feature_level=0))
    assert image.features == {}


def test_a_broker_is_fenced_and_unfenced_and_keeps_the_rest() -> None:
    image = MetadataImage()
    apply(image, RegisterBrokerRecord(broker_id=1, broker_epoch=9, rack=None, log_dirs=[D1]))
    assert not image.brokers[1].active
    apply(image, BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=9, fenced=-1))
    assert image.brokers[1].active
    apply(image, BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=9, in_controlled_shutdown=1))
    assert (image.brokers[1].fenced, image.brokers[1].active) == (False, False)
    assert image.brokers[1].directories == (D1,)


def test_clearing_the_elr_touches_only_partitions_that_have_one() -> None:
    image = MetadataImage()
    apply(
        image,
        *topic(partitions=2),
        PartitionChangeRecord(partition_id=1, topic_id=ID, isr=[2], eligible_leader_replicas=[1]),
    )
    replay = apply(image, ClearElrRecord(topic_name="flights"))
    [(_, now, was)] = replay.take_delta().changed_partitions()
    assert (now.index, now.elr, was and was.elr) == (1, (), (1,))


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ([PartitionChangeRecord(partition_id=0, topic_id=Uuid.of(9, 9))], "does not exist"),
        ([*topic(), PartitionChangeRecord(partition_id=5, topic_id=ID)], "flights-5"),
        ([*topic(), TopicRecord(name="flights", topic_id=Uuid.of(8, 8))], "created again"),
        ([UnregisterBrokerRecord(broker_id=3, broker_epoch=1)], "broker 3 is not registered"),
        ([UnregisterControllerRecord(controller_id=3)], "controller 3 is not registered"),
        (
            [
                RegisterBrokerRecord(broker_id=1, broker_epoch=9),
                BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=8, fenced=1),
            ],
            "epoch 9",
        ),
        ([EndTransactionRecord()], "nobody began"),
        ([BeginTransactionRecord(), BeginTransactionRecord()], "inside another"),
        ([ProducerIdsRecord(next_producer_id=5), ProducerIdsRecord(next_producer_id=4)], "falls"),
    ],
)
def test_a_record_that_does_not_fit_is_refused_with_its_offset(broken: list[object], words: str) -> None:
    with pytest.raises(ReplayError, match=words):
        apply(MetadataImage(), *broken)


def test_two_images_share_parts_but_replaying_into_one_leaves_the_other_alone() -> None:
    image = kafka.replayed("add-remove.log")
    copy = image.copy()
    first = image.topics_by_name["first"].id
    apply(
        copy,
        PartitionChangeRecord(partition_id=0, topic_id=first, isr=[1]),
        ConfigRecord(resource_type=4, resource_name="", name="a", value="b"),
    )
    before, after = image.partition("first", 0), copy.partition("first", 0)
    assert before is not None and after is not None
    assert (before.isr, after.isr) == ((1, 2, 3), (1,))
    assert "a" not in image.cluster_config()
    assert image.brokers[1] is copy.brokers[1]


def test_every_record_of_the_fixture_is_accounted_for() -> None:
    found = [record for batch, _ in kafka.log_batches("add-remove.log") for record in metadata_of(batch)]
    assert len({type(record) for record in found}) == 11
