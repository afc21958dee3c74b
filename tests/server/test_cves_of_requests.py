"""What requests of others could do to a node, each test named after the CVE that shows somebody did."""

from __future__ import annotations

import struct
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c
from tests.server.secured import Secured, run_secured

from barnabas.client.connection import ConnectionFailed
from barnabas.errors import ErrorCode
from barnabas.security.acl import Operation, ResourceType
from barnabas.server.api.table import TABLE
from barnabas.wire.records import TRANSACTIONAL, Record, write_batch
from barnabas.wire.registry import request_class
from barnabas.wire.schemas.cluster import MetadataRequest
from barnabas.wire.schemas.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.schemas.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

TOPIC, TRANSACTION = ResourceType.TOPIC, ResourceType.TRANSACTIONAL_ID


def test_cve_2026_83525_empty_requests_end_no_controller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FetchSnapshot without topics ended a controller: every API between nodes, empty, in every version."""

    async def scenario(node: Secured) -> None:
        for row in TABLE:
            if "C" not in row.listeners or row.key >= 10_000:
                continue
            for version in range(row.low, row.high + 1):
                peer: Any = await node.login(controller=True)
                with suppress(ConnectionFailed):  # hanging up is an answer, too
                    await peer.request(request_class(row.key)(), version, 5.0)
                assert node.node.failure is None, f"API {row.key} v{version}"
        client: Any = await node.login()
        made = await client.request(
            CreateTopicsRequest(topics=[CreatableTopic(name="alive", num_partitions=1, replication_factor=1)])
        )
        assert made.topics[0].error_code == 0
        assert [topic.name for topic in (await client.request(MetadataRequest(topics=None))).topics] == [
            "alive"
        ]

    run_secured(tmp_path, monkeypatch, scenario)


def test_cve_2018_17196_a_crafted_produce_does_not_skip_the_transactional_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transactional id in the batch only, in the request only, and of somebody else."""

    def request(name: str | None, *, in_batch: bool) -> ProduceRequest:
        batch = bytearray(write_batch([Record(0, 0, None, b"v" * 40, [])], producer_id=7, producer_epoch=0))
        if in_batch:
            (attributes,) = struct.unpack_from(">h", batch, 21)
            struct.pack_into(">h", batch, 21, attributes | TRANSACTIONAL)
            struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
        data = PartitionProduceData(index=0, records=bytes(batch))
        topics = [TopicProduceData(name="t", partition_data=[data])]
        return ProduceRequest(transactional_id=name, acks=-1, timeout_ms=1000, topic_data=topics)

    async def scenario(node: Secured) -> None:
        admin: Any = await node.login()
        await admin.request(
            CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])
        )
        await node.allow("alice", Operation.WRITE, TOPIC, "t")
        await node.allow("alice", Operation.WRITE, TRANSACTION, "hers")
        alice: Any = await node.login("alice")

        async def code(asked: ProduceRequest) -> int:
            answer = await alice.request(asked, 11)
            return int(answer.responses[0].partition_responses[0].error_code)

        denied = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert await code(request(None, in_batch=True)) == denied
        assert await code(request("another", in_batch=True)) == denied
        assert await code(request("hers", in_batch=True)) not in (0, denied)  # hers, and not begun

    run_secured(tmp_path, monkeypatch, scenario)


def test_cve_2026_111496_timestamps_at_the_ends_of_their_range_keep_nobody_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A window that began near the last millisecond never ended."""
    ends = (-(1 << 63), -(1 << 63) + 1, -1, 0, (1 << 63) - 1001, (1 << 63) - 1)

    async def scenario(node: Secured) -> None:
        admin: Any = await node.login()
        free = [
            CreatableTopicConfig(name=f"message.timestamp.{way}.max.ms", value=str((1 << 63) - 1))
            for way in ("before", "after")
        ]
        for name in ("t", "with-its-own-limits"):
            row = CreatableTopic(
                name=name, num_partitions=1, replication_factor=1, configs=free * (name == "t")
            )
            await admin.request(CreateTopicsRequest(topics=[row]))
        answers = {}
        for name in ("t", "with-its-own-limits"):
            for timestamp in ends:
                data = PartitionProduceData(
                    index=0, records=write_batch([Record(0, timestamp, None, b"v", [])])
                )
                topics = [TopicProduceData(name=name, partition_data=[data])]
                answer = await admin.request(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics), 11)
                answers[name, timestamp] = answer.responses[0].partition_responses[0].error_code
        assert answers["with-its-own-limits", ends[-1]] == ErrorCode.INVALID_TIMESTAMP
        begun = time.process_time()
        for timestamp in (*ends, -3, 1 << 62, -(1 << 62)):
            asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
            topic = ListOffsetsTopic(name="t", partitions=[asked])
            await admin.request(ListOffsetsRequest(replica_id=-1, topics=[topic]), 8)
        assert time.process_time() < begun + 1.0
        assert node.node.failure is None

    run_secured(tmp_path, monkeypatch, scenario)
