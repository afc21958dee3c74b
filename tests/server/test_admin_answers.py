"""What administrators ask of a real node: pages of partitions, names of what has settings, disks, moves, rules."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from barnabas.client.aio import AsyncConnection
from barnabas.config import Config
from barnabas.errors import ErrorCode
from barnabas.model import Uuid
from barnabas.server.node.process import ServerNode
from barnabas.wire.schemas.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from barnabas.wire.schemas.cluster import (
    DescribeClusterRequest,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    MetadataRequest,
    MetadataRequestTopic,
    TopicRequest,
)
from barnabas.wire.schemas.configs import ListConfigResourcesRequest
from barnabas.wire.schemas.reassignment import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from barnabas.wire.schemas.topics import CreatableTopic, CreateTopicsRequest

TOPICS = {"one": 1, "three": 3, "two": 2}


def ask_in_turn(folder: Path, *requests: Any) -> list[Any]:
    """The answers of a node with the topics above."""

    async def main() -> list[Any]:
        config = Config.load(
            {
                "log.dirs": str(folder / "data"),
                "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
                "controller.listener.names": "CONTROLLER",
            }
        )
        async with ServerNode(config) as node, await AsyncConnection.connect(*node.address) as connection:
            created: Any = await connection.request(
                CreateTopicsRequest(
                    topics=[
                        CreatableTopic(name=name, num_partitions=count, replication_factor=1)
                        for name, count in TOPICS.items()
                    ],
                    timeout_ms=5000,
                )
            )
            assert [topic.error_code for topic in created.topics] == [0, 0, 0]
            return [
                await connection.request(*(request if isinstance(request, tuple) else (request,)))
                for request in requests
            ]

    return asyncio.run(main())


def test_partitions_come_in_pages_by_topic_name(tmp_path: Path) -> None:
    cursors: list[Any] = [None, ("three", 1), ("two", 0), ("thunder", 7)]
    pages = ask_in_turn(
        tmp_path,
        *(
            DescribeTopicPartitionsRequest(
                response_partition_limit=2,
                cursor=cursor
                and DescribeTopicPartitionsRequestCursor(topic_name=cursor[0], partition_index=cursor[1]),
            )
            for cursor in cursors
        ),
    )
    shown = [[(t.name, [p.partition_index for p in t.partitions]) for t in page.topics] for page in pages]
    following = [
        page.next_cursor and (page.next_cursor.topic_name, page.next_cursor.partition_index) for page in pages
    ]
    assert shown == [
        [("one", [0]), ("three", [0])],
        [("three", [1, 2])],
        [("two", [0, 1])],
        [("two", [0, 1])],
    ]
    assert following == [("three", 1), ("two", 0), None, None]
    first = pages[0].topics[0].partitions[0]
    assert (first.error_code, first.leader_id, first.replica_nodes, first.isr_nodes) == (0, 1, [1], [1])
    assert (first.eligible_leader_replicas, first.offline_replicas) == ([], [])


def test_an_unknown_topic_and_a_senseless_cursor_are_told_by_topic(tmp_path: Path) -> None:
    unknown, senseless = ask_in_turn(
        tmp_path,
        DescribeTopicPartitionsRequest(topics=[TopicRequest(name="none"), TopicRequest(name="one")]),
        DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name="one")],
            cursor=DescribeTopicPartitionsRequestCursor(topic_name="one", partition_index=-2),
        ),
    )
    assert [(topic.name, topic.error_code) for topic in unknown.topics] == [
        ("none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("one", ErrorCode.NONE),
    ]
    assert [topic.error_code for topic in senseless.topics] == [ErrorCode.INVALID_REQUEST]


def test_what_has_settings_is_listed_by_kind(tmp_path: Path) -> None:
    everything, topics, loggers = ask_in_turn(
        tmp_path,
        ListConfigResourcesRequest(),
        ListConfigResourcesRequest(resource_types=[2]),
        ListConfigResourcesRequest(resource_types=[8]),
    )
    names = [(found.resource_type, found.resource_name) for found in everything.config_resources]
    assert names == [(2, "one"), (2, "three"), (2, "two"), (4, "1"), (8, "1")]
    assert [found.resource_name for found in topics.config_resources] == sorted(TOPICS)
    assert [found.resource_name for found in loggers.config_resources] == ["1"]


def test_directories_are_described_with_what_lies_in_them(tmp_path: Path) -> None:
    everything, one = ask_in_turn(
        tmp_path,
        DescribeLogDirsRequest(topics=None),
        DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic="three", partitions=[2, 9])]),
    )
    (directory,) = everything.results
    assert (directory.error_code, directory.log_dir) == (0, str(tmp_path / "data"))
    assert directory.usable_bytes > 0
    assert {topic.name: len(topic.partitions) for topic in directory.topics} == TOPICS
    (found,) = one.results[0].topics
    assert [(p.partition_index, p.partition_size, p.offset_lag) for p in found.partitions] == [(2, 0, 0)]


def test_nothing_moves_and_nobody_is_told_that_rules_protect(tmp_path: Path) -> None:
    everything, one, described, created, deleted = ask_in_turn(
        tmp_path,
        ListPartitionReassignmentsRequest(topics=None),
        ListPartitionReassignmentsRequest(
            topics=[ListPartitionReassignmentsTopics(name="two", partition_indexes=[0, 5])]
        ),
        DescribeAclsRequest(),
        CreateAclsRequest(creations=[AclCreation(principal="User:a", host="*")] * 2),
        DeleteAclsRequest(filters=[DeleteAclsFilter()]),
    )
    assert everything.topics == one.topics == []
    refused = ErrorCode.SECURITY_DISABLED
    assert described.error_code == refused
    assert [result.error_code for result in created.results] == [refused, refused]
    assert [result.error_code for result in deleted.filter_results] == [refused]


def test_a_topic_by_id_is_refused_where_the_version_cannot_answer_it(tmp_path: Path) -> None:
    by_id = MetadataRequestTopic(topic_id=Uuid.of(1, 2), name="")
    requests = [(MetadataRequest(topics=[by_id]), version) for version in (10, 11)]
    by_id = MetadataRequestTopic(topic_id=Uuid.of(1, 2), name=None)
    *old, new = ask_in_turn(tmp_path, *requests, (MetadataRequest(topics=[by_id]), 12))
    assert [answer.topics[0].error_code for answer in old] == [ErrorCode.INVALID_REQUEST] * 2
    assert (new.topics[0].error_code, new.topics[0].name) == (ErrorCode.UNKNOWN_TOPIC_ID, None)


def test_a_listener_of_controllers_refuses_who_asks_for_brokers_in_every_version(tmp_path: Path) -> None:
    """The codes are Apache Kafka 4.3.1's; version 0 asks for brokers without saying so."""

    async def main() -> list[tuple[int, int]]:
        config = Config.load(
            {
                "log.dirs": str(tmp_path / "data"),
                "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
                "controller.listener.names": "CONTROLLER",
            }
        )
        async with ServerNode(config) as node:
            endpoint = next(e for e in node.endpoints if e.listener == "CONTROLLER")
            async with await AsyncConnection.connect(endpoint.host, endpoint.port) as connection:
                answers: list[Any] = [
                    await connection.request(DescribeClusterRequest(**fields), version)
                    for version, fields in (
                        (0, {}),
                        (1, {"endpoint_type": 0}),
                        (1, {"endpoint_type": 1}),
                        (2, {"endpoint_type": 2}),
                        (2, {"endpoint_type": 3}),
                    )
                ]
                return [(answer.error_code, len(answer.brokers)) for answer in answers]

    assert asyncio.run(main()) == [
        (ErrorCode.INVALID_REQUEST, 0),
        (ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, 0),
        (ErrorCode.MISMATCHED_ENDPOINT_TYPE, 0),
        (ErrorCode.NONE, 1),
        (ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, 0),
    ]
