"""Without the right: every API answers with Kafka's error, shows no name, and does nothing."""

from __future__ import annotations

import asyncio
import itertools
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.frames import frame
from tests.server.harness import Client, decoded
from tests.server.rights_cases import (
    ABSENT,
    CLUSTER_DENIED,
    DENIED,
    HIDDEN,
    TOPIC_DENIED,
    request_of,
)
from tests.server.secured import Secured, acl, run_apart, run_secured

from barnabas.client.aio import AsyncConnection
from barnabas.config import Config
from barnabas.errors import ErrorCode
from barnabas.model import Uuid
from barnabas.security.acl import Operation, Permission, ResourceType
from barnabas.server.api.table import TABLE
from barnabas.server.node.awaiting_bootstrap import AwaitingBootstrap
from barnabas.server.rights.needed import Needed, needed
from barnabas.settings.table_access import STANDARD_AUTHORIZER
from barnabas.wire.codec.message import Message, Struct
from barnabas.wire.records import Record, write_batch
from barnabas.wire.schemas.acls import DeleteAclsFilter, DeleteAclsRequest
from barnabas.wire.schemas.cluster import DescribeClusterRequest, MetadataRequest, MetadataRequestTopic
from barnabas.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.schemas.groups import DescribeGroupsRequest, FindCoordinatorRequest, ListGroupsRequest
from barnabas.wire.schemas.own import BootstrapQuorumRequest
from barnabas.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.schemas.topics import CreatableTopic, CreateTopicsRequest

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
OF_LOGINS = {38, 39, 40, 41}
"""Delegation tokens: everybody may have their own, and the tests of logins ask for the others'."""
FOR_CLIENTS = [
    row
    for row in TABLE
    if "B" in row.listeners and needed(row) is not Needed.NOTHING and row.key not in OF_LOGINS
]


def codes(value: Any) -> Iterator[int]:
    """Every error code of an answer, however deep."""
    if isinstance(value, Message | Struct):
        for name in value.__annotations__:
            inner = getattr(value, name)
            if name in ("error_code", "partition_error_code"):
                yield inner
            else:
                yield from codes(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from codes(inner)


async def with_topic(node: Secured) -> Uuid:
    """The cluster with its hidden topic."""
    admin: Any = await node.login()
    made = await admin.request(
        CreateTopicsRequest(topics=[CreatableTopic(name=HIDDEN, num_partitions=1, replication_factor=1)])
    )
    assert made.topics[0].error_code == 0
    topic_id = made.topics[0].topic_id
    assert isinstance(topic_id, Uuid)
    return topic_id


def test_every_api_without_the_right_answers_kafkas_error_and_shows_and_does_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every API of the table in every version; for what is there and for what is not, the answer is the same."""

    async def scenario(node: Secured) -> None:
        topic_id = await with_topic(node)
        mallory = await node.login("mallory")
        image = node.node.quorum.image  # type: ignore[union-attr]
        for row in FOR_CLIENTS:
            assert row.key in DENIED, f"say in rights_cases what API {row.key} answers without the right"
            for version in range(row.low, row.high + 1):
                offset, answers = image.offset, []
                for name in (HIDDEN, ABSENT):
                    request = request_of(row.key, version, name, topic_id)
                    answer = await mallory.request(request, version)
                    expected = DENIED[row.key]
                    if (row.key, version >= 4) == (24, True):
                        expected = CLUSTER_DENIED
                    found = [code for code in codes(answer) if code]
                    where = f"API {row.key} v{version}: {answer}"
                    if expected is None:
                        assert not found and not answer_has(answer, HIDDEN), where
                    elif (row.key, version) == (35, 1) or (row.key, version) == (35, 2):
                        assert not answer.results, where  # (these versions have no place for an error)
                    else:
                        assert found and set(found) == {expected}, where
                    plain = re.sub(r"<memory at 0x[0-9a-f]+>|throttle_time_ms=\d+", "", repr(answer))
                    answers.append(plain.replace(name, "NAME"))
                assert answers[0] == answers[1], f"API {row.key} v{version} tells what exists"
                assert image.offset == offset, f"API {row.key} v{version} wrote to the metadata"
        assert set(image.topics_by_name) == {HIDDEN}  # nor was a coordinator's topic made

    run_secured(tmp_path, monkeypatch, scenario, barnabas_fast_fencing="false")


def answer_has(value: Any, name: str) -> bool:
    return name in repr(value)


def test_what_nodes_ask_each_other_is_refused_to_everybody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Raft, envelopes, registration, heartbeats, AlterPartition: ClusterAction."""
    from barnabas.wire.registry import request_class

    async def scenario(node: Secured) -> None:
        image = node.node.quorum.image  # type: ignore[union-attr]
        for row in TABLE:
            if row.listeners != "C" or row.key >= 10_000:
                continue
            mallory: Any = await node.login("mallory", controller=True)
            version = row.high
            offset = image.offset
            answer = await mallory.request(request_class(row.key)(), version)
            assert next(codes(answer)) == CLUSTER_DENIED, f"API {row.key}: {answer}"
            assert image.offset == offset

    run_secured(tmp_path, monkeypatch, scenario)


def test_a_user_who_fetches_as_a_follower_moves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CVE-2018-1288: READ on the topic is no right to replicate it."""

    async def scenario(node: Secured) -> None:
        topic_id = await with_topic(node)
        await node.allow("alice", READ, TOPIC, HIDDEN)
        alice: Any = await node.login("alice")
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        for replica in (1, 2):
            request = FetchRequest(
                replica_id=replica,
                max_wait_ms=0,
                topics=[FetchTopic(topic_id=topic_id, partitions=[partition])],
            )
            answer = await alice.request(request, 13)
            assert answer.responses[0].partitions[0].error_code == TOPIC_DENIED
        as_consumer = FetchRequest(
            max_wait_ms=0, topics=[FetchTopic(topic_id=topic_id, partitions=[partition])]
        )
        answer = await alice.request(as_consumer, 13)
        assert answer.responses[0].partitions[0].error_code == 0

    run_secured(tmp_path, monkeypatch, scenario)


def test_metadata_shows_what_one_may_describe_and_what_one_may_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(node: Secured) -> None:
        topic_id = await with_topic(node)
        alice: Any = await node.login("alice")
        everything = MetadataRequest(topics=None, include_topic_authorized_operations=True)
        assert (await alice.request(everything)).topics == []
        by_id = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=topic_id)])
        row = (await alice.request(by_id)).topics[0]
        assert (row.error_code, row.name, row.topic_id) == (TOPIC_DENIED, None, topic_id)
        by_name = MetadataRequest(topics=[MetadataRequestTopic(name=HIDDEN)])
        row = (await alice.request(by_name)).topics[0]
        assert (row.error_code, row.name, row.topic_id) == (TOPIC_DENIED, HIDDEN, Uuid(bytes(16)))
        await node.allow("alice", WRITE, TOPIC, HIDDEN)
        (row,) = (await alice.request(everything)).topics
        assert row.topic_authorized_operations == 1 << WRITE | 1 << DESCRIBE
        old = await alice.request(MetadataRequest(topics=[], include_cluster_authorized_operations=True), 10)
        assert old.cluster_authorized_operations == 0  # nothing is said without DESCRIBE on the cluster

    run_secured(tmp_path, monkeypatch, scenario)


def test_what_one_may_do_to_the_cluster_and_to_a_group_is_said_by_rights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KIP-430."""

    async def scenario(node: Secured) -> None:
        alice: Any = await node.login("alice")
        cluster = DescribeClusterRequest(include_cluster_authorized_operations=True)
        assert (await alice.request(cluster)).cluster_authorized_operations == 0
        await node.allow("alice", DESCRIBE, CLUSTER, "kafka-cluster")
        await node.allow("alice", Operation.IDEMPOTENT_WRITE, CLUSTER, "kafka-cluster")
        bits = (await alice.request(cluster)).cluster_authorized_operations
        assert bits == 1 << DESCRIBE | 1 << Operation.IDEMPOTENT_WRITE
        await node.allow("alice", READ, GROUP, "g")
        asked = DescribeGroupsRequest(groups=["g"], include_authorized_operations=True)
        await alice.request(FindCoordinatorRequest(coordinator_keys=["g"]))
        for _ in range(500):
            group = (await alice.request(asked, 5)).groups[0]
            if not group.error_code:
                break
            await asyncio.sleep(0.01)  # its coordinator is being loaded
        assert group.authorized_operations == 1 << READ | 1 << DESCRIBE

    run_secured(tmp_path, monkeypatch, scenario)


def test_a_topic_is_made_for_who_asks_only_by_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(node: Secured) -> None:
        alice: Any = await node.login("alice")
        await node.allow("alice", DESCRIBE, TOPIC, "new")

        async def asked() -> int:
            answer = await alice.request(MetadataRequest(topics=[MetadataRequestTopic(name="new")]))
            return int(answer.topics[0].error_code)

        assert await asked() == TOPIC_DENIED
        assert node.node.quorum.image.topics_by_name == {}  # type: ignore[union-attr]
        await node.allow("alice", Operation.CREATE, TOPIC, "new")
        assert await asked() == 0

    run_secured(tmp_path, monkeypatch, scenario)


def test_groups_are_listed_to_who_may_describe_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(node: Secured) -> None:
        from barnabas.wire.schemas import groups

        await with_topic(node)
        admin: Any = await node.login()
        for name in ("mine", "yours"):
            await admin.request(groups.FindCoordinatorRequest(coordinator_keys=[name]))
            topic = groups.OffsetCommitRequestTopic(
                name=HIDDEN,
                partitions=[groups.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)],
            )
            for _ in range(200):
                done = await admin.request(groups.OffsetCommitRequest(group_id=name, topics=[topic]), 9)
                if not done.topics[0].partitions[0].error_code:
                    break
                await asyncio.sleep(0.01)  # its coordinator is being loaded
        await node.allow("alice", DESCRIBE, GROUP, "mine")
        alice: Any = await node.login("alice")
        listed = await alice.request(ListGroupsRequest())
        assert [group.group_id for group in listed.groups] == ["mine"]
        await node.allow("alice", DESCRIBE, CLUSTER, "kafka-cluster")
        listed = await alice.request(ListGroupsRequest())
        assert {group.group_id for group in listed.groups} == {"mine", "yours"}

    run_secured(tmp_path, monkeypatch, scenario)


def test_a_request_is_answered_item_by_item(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(node: Secured) -> None:
        alice: Any = await node.login("alice")
        await node.create(acl("alice", Operation.CREATE, TOPIC, "mine"))
        rows = [
            CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("mine", "yours")
        ]
        answer = await alice.request(CreateTopicsRequest(topics=rows), 7)
        by_name = {topic.name: topic for topic in answer.topics}
        assert by_name["yours"].error_code == TOPIC_DENIED
        assert by_name["mine"].error_code == 0
        assert by_name["mine"].topic_config_error_code == TOPIC_DENIED  # no DESCRIBE_CONFIGS
        assert (by_name["mine"].num_partitions, by_name["mine"].configs) == (-1, [])
        assert set(node.node.quorum.image.topics_by_name) == {"mine"}  # type: ignore[union-attr]

    run_secured(tmp_path, monkeypatch, scenario)


def test_a_producer_without_transactions_needs_a_topic_it_may_write_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from barnabas.wire.schemas.transactions import InitProducerIdRequest

    async def scenario(node: Secured) -> None:
        alice: Any = await node.login("alice")
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
        assert (await alice.request(request)).error_code == CLUSTER_DENIED
        await node.allow("alice", WRITE, TOPIC, "anything")
        assert (await alice.request(request)).error_code == 0

    run_secured(tmp_path, monkeypatch, scenario)


def test_who_was_refused_what_is_remembered_with_the_command_that_allows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from barnabas.security.refusals import command_that_allows

    async def scenario(node: Secured) -> None:
        alice: Any = await node.login("alice")
        for _ in range(2):
            await alice.request(MetadataRequest(topics=[MetadataRequestTopic(name="orders")]))
        authorizer = node.node.authorizer
        assert authorizer is not None
        (refusal,) = authorizer.refusals.latest()
        assert refusal[:5] == ("User:alice", "127.0.0.1", DESCRIBE, TOPIC, "orders")
        assert refusal.times == 2 and ErrorCode(TOPIC_DENIED) and "no ACL allows" in refusal.rule
        assert command_that_allows(*refusal[:1], *refusal[2:5]) == (
            "barnabas acls add --allow-principal User:alice --operation Describe --topic orders"
        )

    run_secured(tmp_path, monkeypatch, scenario)


@pytest.mark.parametrize("several", [False, True])
def test_a_fast_path_never_skips_a_check(
    several: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NATS' CVE-2026-58253: a parser's fast path stepped round the login.  Revoked, or somebody else: refused."""

    async def scenario(node: Secured) -> None:
        admin: Any = await node.login()
        rows = [CreatableTopic(name=n, num_partitions=1, replication_factor=1) for n in ("one", "two")]
        await admin.request(CreateTopicsRequest(topics=rows))
        for name in ("one", "two"):
            await node.allow("alice", WRITE, TOPIC, name)
        reader, writer = await asyncio.open_connection(*node.node.address)
        client = Client(reader, writer)
        numbers = itertools.count()

        async def produced() -> set[int]:
            topics = [
                TopicProduceData(
                    name=name,
                    partition_data=[
                        PartitionProduceData(
                            index=0, records=bytes(write_batch([Record(0, 0, None, b"v" * 40, [])]))
                        )
                    ],
                )
                for name in (("one", "two") if several else ("one",))
            ]
            request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics)
            writer.write(frame(request, 9, next(numbers), "as-alice"))
            answer = decoded(0, 9, (await client.answer())[1])
            return {p.error_code for t in answer.responses for p in t.partition_responses}

        for _ in range(4):
            assert await produced() == {0}
        connections = node.node.connections
        assert connections is not None
        (mine,) = (
            c for c in connections.opened.values() if c.client.port == writer.get_extra_info("sockname")[1]
        )
        assert mine.produces is not None
        await node.create(acl("alice", WRITE, TOPIC, "one", permission=Permission.DENY))
        assert TOPIC_DENIED in await produced()
        await node.create(acl("alice", WRITE, TOPIC, "one"))
        assert TOPIC_DENIED in await produced()
        await admin.request(
            DeleteAclsRequest(
                filters=[
                    DeleteAclsFilter(
                        resource_type_filter=2,
                        resource_name_filter="one",
                        pattern_type_filter=3,
                        principal_filter=None,
                        host_filter=None,
                        operation=1,
                        permission_type=int(Permission.DENY),
                    )
                ]
            )
        )
        for _ in range(3):
            assert await produced() == {0}
        monkeypatch.undo()  # from here on it is who the connection says
        mine.client.principal = "User:mallory"
        assert mine.produces is None
        assert await produced() == {TOPIC_DENIED}
        writer.close()

    run_secured(tmp_path, monkeypatch, scenario)


def test_a_controller_asks_again_for_the_client_whose_request_a_broker_forwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The envelope carries the principal: a broker's own rights are not lent to its clients.  A right that is
    taken away counts at every broker within a second."""

    async def scenario(node: Secured) -> None:
        mallory: Any = await node.login("mallory")
        row = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        refused = await mallory.request(CreateTopicsRequest(topics=[row], timeout_ms=5000))
        assert refused.topics[0].error_code == TOPIC_DENIED
        await node.allow("alice", Operation.CREATE, TOPIC, "t")
        alice: Any = await node.login("alice")
        made = await alice.request(CreateTopicsRequest(topics=[row], timeout_ms=5000))
        assert made.topics[0].error_code == 0
        asked = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
        await node.allow("alice", DESCRIBE, TOPIC, "t")
        assert (await alice.request(asked)).topics[0].error_code == 0
        await node.create(acl("alice", DESCRIBE, TOPIC, "t", permission=Permission.DENY))
        begun = time.monotonic()
        while (await alice.request(asked)).topics[0].error_code != TOPIC_DENIED:
            assert time.monotonic() < begun + 1.0

    run_apart(tmp_path, monkeypatch, scenario)


def test_a_node_without_a_cluster_lets_no_stranger_begin_one_where_nodes_log_in() -> None:
    """It cannot tell yet who asks; where everybody is anonymous anyhow, everybody may."""
    secured = {
        "listener.security.protocol.map": "SSL:SSL,CONTROLLER:SSL",
        "listeners": "SSL://127.0.0.1:0,CONTROLLER://127.0.0.1:{port}",
        "ssl.client.auth": "required",
        "ssl.keystore.location": "node.pem",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:CN=node",
    }
    plain = {"listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{port}"}
    anonymous = {**plain, "authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}

    async def asked(settings: dict[str, str]) -> int:
        async def begin(cluster_id: str | None) -> str:
            return "cluster"

        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        config = Config.load({**settings, "listeners": settings["listeners"].format(port=port)})
        async with AwaitingBootstrap(config, begin) as awaiting:
            connection = await AsyncConnection.connect("127.0.0.1", port)
            answer: Any = await connection.request(BootstrapQuorumRequest())
            await connection.close()
            assert awaiting.done.is_set() == (answer.error_code == 0)
            return int(answer.error_code)

    assert asyncio.run(asked(secured)) == CLUSTER_DENIED
    assert asyncio.run(asked(plain)) == 0
    assert asyncio.run(asked(anonymous)) == 0
