"""The quorum of one node: what it writes, that it comes back, and that it stops when the disk fails."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.controller.cluster import CLUSTER, Chance
from tests.server.quorum_node import (
    DIRECTORY,
    METADATA,
    Node,
    config,
    formatted,
    live,
    make,
    run,
    running,
    until,
)

from barnabas.controller.controller import Controller
from barnabas.controller.feature_levels import bootstrap_records
from barnabas.controller.image import ImageDelta
from barnabas.controller.versions import LATEST
from barnabas.errors import BarnabasError, ConfigError, ErrorCode, KafkaError, StorageError
from barnabas.log.files.snapshot import list_snapshots
from barnabas.model import METADATA_TOPIC
from barnabas.raft.entries import Batch, KraftVersionEntry, LeaderChange, VotersEntry
from barnabas.server.api.describe_quorum import describe_quorum
from barnabas.server.kraft.records import decode_batch, metadata_of, read_snapshot, snapshot_batches
from barnabas.server.loop.system import SystemClock
from barnabas.server.node.format import FormatPlan, format_directories
from barnabas.server.replication.lifecycle import LifecycleState
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.codec.message import MetadataRecord
from barnabas.wire.metadata import (
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)
from barnabas.wire.records import batches, check_crc
from barnabas.wire.schemas.quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
)
from barnabas.wire.schemas.topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse

LOG = f"{METADATA}/00000000000000000000.log"


def on_disk(disk: MemoryDisk, name: str = LOG) -> list[Batch]:
    data = disk.read(name)
    found = []
    for position, header in batches(data):
        assert check_crc(data, position, header)
        found.append(decode_batch(data, position, header))
    return found


def records_on_disk(disk: MemoryDisk) -> list[MetadataRecord]:
    return [record for batch in on_disk(disk) for record in metadata_of(batch)]


# What the first life writes.


def test_the_first_leader_writes_what_kafka_writes_in_the_same_order() -> None:
    async def story() -> None:
        disk = formatted()
        async with running(disk) as node:
            await node.broker()
        first, transaction, *rest = on_disk(disk)
        change, version, voters = first.entries
        assert change == LeaderChange(1, (1,), (1,))
        assert version == KraftVersionEntry(1)
        assert isinstance(voters, VotersEntry)
        assert voters.voters.keys == (node.quorum.settings.key,)
        names = [
            record.name if isinstance(record, FeatureLevelRecord) else type(record).__name__
            for record in metadata_of(transaction)
        ]
        assert names == [
            "BeginTransactionRecord",
            "metadata.version",
            "eligible.leader.replicas.version",
            "group.version",
            "share.version",
            "streams.version",
            "transaction.version",
            "ConfigRecord",
            "EndTransactionRecord",
        ]
        assert [type(record) for batch in rest for record in metadata_of(batch)] == [
            RegisterControllerRecord,
            RegisterBrokerRecord,
            BrokerRegistrationChangeRecord,
        ]
        assert all(batch.epoch == 1 for batch in on_disk(disk))

    run(story)


def test_the_metadata_directory_holds_the_files_of_kafka() -> None:
    async def story() -> None:
        disk = formatted()
        async with running(disk):
            names = set(disk.list(METADATA))
            state = json.loads(disk.read(f"{METADATA}/quorum-state"))
        assert {
            "00000000000000000000-0000000000.checkpoint",
            "00000000000000000000.log",
            "leader-epoch-checkpoint",
            "partition.metadata",
            "quorum-state",
        } <= names
        tables = {"00000000000000000000.index", "00000000000000000000.timeindex"}
        assert not tables & names, "the tables of an active segment are in memory"
        assert tables <= set(disk.list(METADATA)), "and a clean stop writes them"
        kafkas = ["leaderId", "leaderEpoch", "votedId", "votedDirectoryId", "data_version"]
        assert list(state) == [*kafkas, "barnabasOrigin", "barnabasChecksum"]
        assert (state["leaderId"], state["leaderEpoch"], state["data_version"]) == (1, 1, 1)
        assert disk.read(f"{METADATA}/partition.metadata") == b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"

    run(story)


def test_the_features_that_formatting_chose_are_the_ones_of_the_cluster() -> None:
    async def story() -> None:
        disk = formatted()
        async with running(disk) as node:
            assert node.quorum.image.features == {
                "metadata.version": LATEST,
                "eligible.leader.replicas.version": 1,
                "group.version": 1,
                "share.version": 2,
                "streams.version": 1,
                "transaction.version": 2,
            }
            assert node.quorum.image.cluster_config() == {"min.insync.replicas": "1"}
            assert node.quorum.kraft_version == 1
            assert node.quorum.is_active_controller
            assert (node.quorum.leader_id, node.quorum.epoch) == (1, 1)

    run(story)


def test_an_idle_node_that_nobody_reads_writes_nothing() -> None:
    async def story() -> None:
        async with running(formatted()) as node:
            await node.broker()
            end = node.quorum.high_watermark
            node.quorum._maintenance.look()
            await asyncio.sleep(0)
            assert node.quorum.high_watermark == end

    run(story)


def test_idle_records_are_written_where_they_were_asked_for() -> None:
    async def story() -> None:
        disk = formatted()
        async with running(disk, metadata_max_idle_interval_ms="1") as node:
            await until(lambda: any(isinstance(record, NoOpRecord) for record in records_on_disk(disk)))
            deltas = len(node.deltas)
            node.quorum.steps.append_own([NoOpRecord()])
            end = node.quorum.high_watermark
            await until(lambda: node.quorum.high_watermark > end)
            assert len(node.deltas) == deltas  # nobody is told of nothing

    run(story)


# Requests.


def test_an_answer_comes_after_its_records_are_durable_and_after_the_change_was_told() -> None:
    async def story() -> None:
        disk = formatted()
        node = make(disk)
        await node.start()
        await node.broker()
        seen: list[str] = []

        def told(delta: ImageDelta) -> None:
            seen.extend(topic.name for topic in delta.topics_created.values())
            assert delta.image is node.quorum.image

        node.quorum.on_change(told)
        result = await node.create("flights", partitions=3)
        assert (result.error_code, result.num_partitions) == (0, 3)
        assert seen == ["flights"]
        node.abandon()
        disk.crash("all")
        assert any(getattr(record, "name", "") == "flights" for record in records_on_disk(disk))

    run(story)


def test_requests_of_one_moment_see_each_other_and_share_a_sync() -> None:
    async def story() -> None:
        async with running(formatted()) as node:
            await node.broker()
            syncs = node.quorum.statistics().store.syncs
            results = await asyncio.gather(*(node.create(name) for name in ("a", "a", "b", "c", "d", "e")))
            codes = [result.error_code for result in results]
            assert codes == [0, ErrorCode.TOPIC_ALREADY_EXISTS, 0, 0, 0, 0]
            assert node.quorum.statistics().store.syncs - syncs <= 2

    run(story)


def test_a_refusal_is_answered_without_a_record() -> None:
    async def story() -> None:
        async with running(formatted()) as node:
            end = node.quorum.high_watermark
            result = await node.create("no/slash")
            assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
            assert node.quorum.high_watermark == end

    run(story)


def test_what_the_controller_does_not_decide_is_refused_as_unsupported() -> None:
    async def story() -> None:
        async with running(formatted()) as node:
            with pytest.raises(KafkaError) as error:
                await node.quorum.submit(DescribeQuorumRequest())
            assert error.value.code == ErrorCode.UNSUPPORTED_VERSION

    run(story)


def test_a_request_made_inside_a_callback_is_taken_after_the_turn() -> None:
    async def story() -> None:
        async with running(formatted()) as node:
            await node.broker()
            futures: list[asyncio.Future[object]] = []

            def again(delta: ImageDelta) -> None:
                if any(topic.name == "first" for topic in delta.topics_created.values()):
                    topic = CreatableTopic(name="second", num_partitions=1, replication_factor=1)
                    futures.append(node.quorum.submit(CreateTopicsRequest(topics=[topic])))  # type: ignore[arg-type]

            node.quorum.on_change(again)
            await node.create("first")
            answer = await futures[0]
            assert isinstance(answer, CreateTopicsResponse)
            assert answer.topics[0].error_code == 0

    run(story)


def test_describe_names_the_leader_the_voter_with_its_disk_and_the_high_watermark() -> None:
    async def story() -> None:
        async with running(formatted()) as node:
            partitions = [DescribeQuorumRequestPartitionData(partition_index=i) for i in (0, 1)]
            topic = DescribeQuorumRequestTopicData(topic_name=METADATA_TOPIC, partitions=partitions)
            answer = describe_quorum(node.quorum.describe(), DescribeQuorumRequest(topics=[topic]))
            assert isinstance(answer, DescribeQuorumResponse)
            known, unknown = answer.topics[0].partitions
            assert (known.leader_id, known.leader_epoch) == (1, 1)
            assert known.high_watermark == node.quorum.high_watermark
            [voter] = known.current_voters
            assert (voter.replica_id, voter.replica_directory_id) == node.quorum.settings.key
            assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            [described] = answer.nodes
            assert [(e.name, e.port) for e in described.listeners] == [("CONTROLLER", 9093)]

    run(story)


# Coming back.


def test_a_node_that_was_stopped_comes_back_in_a_later_epoch_with_the_same_image() -> None:
    async def story() -> None:
        disk = formatted()
        async with running(disk) as node:
            await node.broker()
            await node.create("flights", partitions=2)
            before = node.quorum.image.copy()
        async with running(disk, seed=3) as node:
            assert node.quorum.epoch > 1
            for part in ("topics", "brokers", "configs", "features", "topics_by_name"):
                assert getattr(node.quorum.image, part) == getattr(before, part)
        changes = [e for batch in on_disk(disk) for e in batch.entries if isinstance(e, LeaderChange)]
        assert len(changes) == 2
        assert sum(isinstance(record, BeginTransactionRecord) for record in records_on_disk(disk)) == 1

    run(story)


def test_a_node_that_was_killed_comes_back_with_everything_it_had_answered() -> None:
    async def story() -> None:
        disk = formatted()
        node = make(disk)
        await node.start()
        await node.broker()
        for number in range(5):
            await node.create(f"t{number}")
        node.abandon()
        disk.crash("all")
        async with running(disk, seed=3) as again:
            assert sorted(again.quorum.image.topics_by_name) == [f"t{number}" for number in range(5)]
            await again.broker()
            state = again.quorum.image.partition("t0", 0)
            assert state is not None and state.leader == 1
            assert (await again.create("t5")).error_code == 0

    run(story)


def test_a_broker_that_leaves_in_order_and_comes_back_leads_again_without_recovering() -> None:
    async def story() -> None:
        disk = formatted()
        async with running(disk) as node:
            lifecycle = await node.broker()
            await node.create("flights")
            epoch = lifecycle.epoch
            await lifecycle.leave()
            assert node.quorum.image.brokers[1].fenced
        async with running(disk, seed=3) as node:
            lifecycle = await node.broker(previous_epoch=epoch)
            assert lifecycle.state is LifecycleState.RUNNING
            state = node.quorum.image.partition("flights", 0)
            assert state is not None
            assert (state.leader, state.isr, state.recovering) == (1, (1,), False)

    run(story)


@pytest.mark.parametrize("seed", range(8))
def test_whatever_step_the_power_fails_at_nothing_answered_is_lost(seed: int) -> None:
    async def story() -> None:
        disk = formatted()
        answered: list[str] = []
        rounds = 12
        for life in range(rounds):

            async def work(node: Node, life: int = life) -> None:
                await node.broker()
                for number in range(3):
                    name = f"life{life}-{number}"
                    result = await node.create(name)
                    assert result.error_code == 0
                    answered.append(name)

            await live(disk, work, seed=100 * seed + life, power=3 + (seed * 29 + life * 37) % 160)
            disk.crash("some")
        async with running(disk, seed=9) as node:
            assert set(answered) <= set(node.quorum.image.topics_by_name)
            assert node.quorum.image.features["metadata.version"] == LATEST
        assert len(answered) >= 3

    run(story)


# When the disk fails.


def test_a_failed_sync_stops_the_node_and_answers_nobody_with_success() -> None:
    async def story() -> None:
        disk = formatted()
        node = make(disk)
        await node.start()
        await node.broker()
        disk.fail("sync", LOG)
        with pytest.raises(KafkaError) as refused:
            await node.create("flights")
        assert refused.value.code == ErrorCode.NOT_CONTROLLER
        [error] = node.errors
        assert error.fatal
        assert isinstance(error, StorageError)
        assert not node.quorum.is_active_controller
        with pytest.raises(KafkaError):
            await node.create("other")
        assert node.lifecycle is not None
        node.lifecycle.abandon()
        await node.quorum.stop()
        assert len(node.errors) == 1

    run(story)


def test_an_error_of_the_regular_upkeep_stops_the_node_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller that silently stopped to fence anybody would look alive for ever."""

    def broken(*_: object) -> None:
        raise StorageError("cannot remove it")

    async def story() -> None:
        node = make(formatted(), metadata_max_idle_interval_ms="10")
        await node.start()
        monkeypatch.setattr(Controller, "is_due", broken)
        await until(lambda: bool(node.errors))
        assert node.errors[0].fatal
        assert not node.quorum.is_active_controller
        await node.quorum.stop()

    run(story)


def test_an_error_after_a_job_in_the_disk_thread_stops_the_node_too() -> None:
    def broken(error: BaseException | None) -> None:
        raise StorageError("cannot go on with it")

    async def story() -> None:
        node = make(formatted())
        await node.start()
        node.quorum.run(lambda: None, broken)
        await until(lambda: bool(node.errors))
        await node.quorum.stop()

    run(story)


def test_a_directory_that_cannot_be_synced_at_start_is_an_error_of_start() -> None:
    async def story() -> None:
        disk = formatted()
        disk.fail("sync", LOG)
        node = make(disk)
        with pytest.raises(BarnabasError):
            await node.start()
        await node.stop()

    run(story)


def test_a_senseless_quorum_state_is_refused() -> None:
    async def story() -> None:
        disk = formatted()
        async with running(disk):
            pass
        disk.put(f"{METADATA}/quorum-state", b"{}")
        with pytest.raises(StorageError, match="quorum-state is senseless"):
            await make(disk).start()

    run(story)


def test_a_corrupt_first_snapshot_is_refused() -> None:
    async def story() -> None:
        disk = formatted()
        disk.corrupt(f"{METADATA}/00000000000000000000-0000000000.checkpoint", 100)
        with pytest.raises(StorageError, match="snapshot"):
            await make(disk).start()

    run(story)


def test_a_torn_end_of_the_log_is_cut_and_what_was_answered_stays() -> None:
    async def story() -> None:
        disk = formatted()
        async with running(disk) as node:
            await node.broker()
            await node.create("flights")
        disk.put(LOG, disk.read(LOG) + b"\0" * 40)
        async with running(disk, seed=3) as node:
            assert node.quorum.image.topic("flights") is not None

    run(story)


def test_a_controller_with_nobody_to_ask_is_refused_in_words() -> None:
    async def story() -> None:
        disk = MemoryDisk(1)
        plan = FormatPlan.of(config(log_dirs=DIRECTORY), CLUSTER, no_initial_controllers=True)
        format_directories(disk, SystemClock(), Chance(), plan)
        with pytest.raises(ConfigError, match="no voters"):
            await make(disk).start()

    run(story)


# Snapshots.


def test_a_snapshot_is_taken_after_enough_records_and_starts_the_next_life() -> None:
    async def story() -> None:
        disk = formatted()
        settings = {
            "metadata_log_max_record_bytes_between_snapshots": "2000",
            "metadata_max_retention_bytes": "1000",
        }
        async with running(disk, 2, **settings) as node:
            await node.broker()
            for number in range(20):
                await node.create(f"t{number}", partitions=2)
            node.quorum._maintenance.look()
            await until(lambda: node.quorum.statistics().snapshots_taken > 0)
            assert len(list_snapshots(disk, METADATA)) == 2
            node.quorum._maintenance.clean()
            [kept] = list_snapshots(disk, METADATA)
            assert node.quorum._store.log.log_start_offset == kept.end_offset
            await node.create("later")
            before = node.quorum.image.copy()
        async with running(disk, seed=3) as node:
            for part in ("topics", "brokers", "controllers", "configs", "features"):
                if part != "controllers":
                    assert getattr(node.quorum.image, part) == getattr(before, part), part
            assert node.quorum.voters.ids == (1,)
            assert node.quorum.kraft_version == 1

    run(story)


def test_the_first_leader_of_a_directory_that_kafka_4_4_formatted_writes_its_levels_to_the_log() -> None:
    """The levels stand beside the first voters there.  Kept to itself, other nodes would never hear of them."""

    async def story() -> None:
        disk = formatted()
        disk.remove(f"{DIRECTORY}/bootstrap.checkpoint")
        path = f"{METADATA}/00000000000000000000-0000000000.checkpoint"
        first = read_snapshot(disk.read(path))
        voters = next(entry.voters for entry in first.entries if isinstance(entry, VotersEntry))
        chosen = bootstrap_records({"metadata.version": 31, "group.version": 1})
        batches = snapshot_batches(
            chosen, epoch=0, stamp=lambda: 1, last_contained_ms=1, voters=voters, kraft_version=1
        )
        disk.put(path, b"".join(batches))
        async with running(disk) as node:
            assert node.quorum.image.features == {"metadata.version": 31, "group.version": 1}
        written = [record for record in records_on_disk(disk) if isinstance(record, FeatureLevelRecord)]
        assert written == chosen

    run(story)


def test_without_a_bootstrap_file_the_features_of_this_release_are_taken() -> None:
    async def story() -> None:
        disk = formatted()
        disk.remove(f"{DIRECTORY}/bootstrap.checkpoint")
        async with running(disk) as node:
            assert node.quorum.image.feature("metadata.version") == LATEST
        assert any(isinstance(record, EndTransactionRecord) for record in records_on_disk(disk))
        assert sum(isinstance(record, ConfigRecord) for record in records_on_disk(disk)) == 1

    run(story)
