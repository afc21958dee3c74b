"""The data directory that is damaged: several topics, one compacted, groups, producers, snapshots, checkpoints."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from tests.log.test_log_compaction import begin, drive
from tests.patience import PATIENCE_S

from barnabas.client.aio import AsyncConnection
from barnabas.config import Config
from barnabas.log.log import Log
from barnabas.server.node.process import ServerNode
from barnabas.wire.records import Record, write_batch
from barnabas.wire.schemas.groups import (
    FindCoordinatorRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.schemas.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

TOPICS = {"events": 2, "keyed": 1}
ROUNDS, RECORDS = 5, 12
"""Segments of each partition, and batches in each of them."""
GROUP = "readers"


class Made(NamedTuple):
    """Two copies of the directory, and what they hold."""

    stopped: Path
    killed: Path
    events: dict[int, list[bytes]]
    """By partition, the value at each offset."""
    keyed: dict[bytes, bytes]
    """By key, the last value."""
    committed: dict[int, int]


def settings(folder: Path) -> Config:
    return Config.load(
        {
            "log.dirs": str(folder),
            "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
            "offsets.topic.num.partitions": "2",
            "metadata.log.max.record.bytes.between.snapshots": "600",
            "log.cleaner.enable": "false",
        }
    )


def records_of(partition: int, number: int) -> list[bytes]:
    """The values of one batch: one to three of them, of different sizes."""
    return [
        b"%d/%d/%d " % (partition, number, n) + bytes(range(97, 97 + (number * 7 + n) % 26)) * 9
        for n in range(1 + number % 3)
    ]


def _log(node: ServerNode, topic: str, index: int) -> Log:
    partition = node.broker.partition(topic, index)
    assert partition is not None
    return partition.log


async def send(connection: AsyncConnection, topic: str, index: int, records: Any, **producer: int) -> int:
    """Produce one batch; returns the error code."""
    data = [PartitionProduceData(index=index, records=write_batch(records, **producer))]
    answer: Any = await connection.request(
        ProduceRequest(
            acks=-1, timeout_ms=5000, topic_data=[TopicProduceData(name=topic, partition_data=data)]
        ),
        9,
    )
    return int(answer.responses[0].partition_responses[0].error_code)


async def commit(connection: AsyncConnection, index: int, offset: int) -> int:
    """Commit an offset of the group; returns the error code."""
    partition = OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
    answer: Any = await connection.request(
        OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=-1,
            topics=[OffsetCommitRequestTopic(name="events", partitions=[partition])],
        ),
        8,
    )
    return int(answer.topics[0].partitions[0].error_code)


async def make(folder: Path) -> Made:
    """Make it once, as a node makes it, and copy it as a stop and as a kill leave it."""
    alive, killed = folder / "alive", folder / "killed"
    made = Made(folder / "stopped", killed, {0: [], 1: []}, {}, {})
    async with asyncio.timeout(PATIENCE_S), ServerNode(settings(alive)) as node:
        async with await AsyncConnection.connect(*node.address) as connection:
            await _create(connection)
            for round_ in range(ROUNDS):
                await _fill(connection, made, round_)
                for topic, partitions in TOPICS.items():
                    for index in range(partitions):
                        if round_ + 1 < ROUNDS:
                            _log(node, topic, index).roll(node.runtime.clock.now())
        log = _log(node, "keyed", 0)
        log.sync()
        assert drive(begin(log, node.runtime.clock.now()), node.runtime.clock.now())
        for directory in node.storage.logs.directories:
            directory.checkpoint_recovery_points()
            directory.checkpoint_high_watermarks()
            directory.checkpoint_compacted()
        shutil.copytree(alive, killed)
    shutil.copytree(alive, made.stopped)
    return made


async def _create(connection: AsyncConnection) -> None:
    compacted = [CreatableTopicConfig(name="cleanup.policy", value="compact")]
    compacted += [CreatableTopicConfig(name="min.cleanable.dirty.ratio", value="0")]
    topics = [
        CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=compacted if name == "keyed" else [CreatableTopicConfig(name="retention.ms", value="-1")],
        )
        for name, partitions in TOPICS.items()
    ]
    answer: Any = await connection.request(CreateTopicsRequest(topics=topics, timeout_ms=5000))
    assert not any(topic.error_code for topic in answer.topics)
    await connection.request(FindCoordinatorRequest(key=GROUP), 3)


async def _fill(connection: AsyncConnection, made: Made, round_: int) -> None:
    for number in range(round_ * RECORDS, (round_ + 1) * RECORDS):
        for index in range(TOPICS["events"]):
            values = records_of(index, number)
            producer = {
                "producer_id": 4000 + index,
                "producer_epoch": 0,
                "base_sequence": len(made.events[index]),
            }
            records = [
                Record(n, 1_700_000_000_000 + number, None, value, ()) for n, value in enumerate(values)
            ]
            assert not await send(connection, "events", index, records, **producer)
            made.events[index].extend(values)
        key, value = b"key %d" % (number % 7), b"value %d" % number * 20
        assert not await send(connection, "keyed", 0, [Record(0, 1_700_000_000_000 + number, key, value, ())])
        made.keyed[key] = value
    for index in range(TOPICS["events"]):
        while await commit(connection, index, len(made.events[index])):  # noqa: ASYNC110 - it loads
            await asyncio.sleep(0.02)
        made.committed[index] = len(made.events[index])
