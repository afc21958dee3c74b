"""2,000 requests of somebody with few rights, at our node and at an Apache Kafka with the same ACLs.

What is compared is who is refused what: each place of an answer that carries one of the codes of authorization
(29, 30, 31, 53), and, of lists, what is shown.  What an allowed request comes to is compared elsewhere
(`side_by_side`).

At Apache Kafka the one who asks is User:ANONYMOUS on a listener without login, and the nodes log in by SASL PLAIN;
at ours it is User:mallory (`tests/server/secured.py`).
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.compat.conftest import free_port, kafka_class
from tests.server.rights_cases import DENIED, request_of
from tests.server.secured import Secured, acl, run_secured

from barnabas.client.blocking import BlockingConnection, RequestTimedOut
from barnabas.client.security.options import Security
from barnabas.model import Uuid
from barnabas.security.acl import OPERATIONS, Operation, PatternType, Permission, ResourceType
from barnabas.server.api.table import TABLE
from barnabas.wire.codec.message import Message, Struct
from barnabas.wire.schemas.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from barnabas.wire.schemas.cluster import DescribeTopicPartitionsRequest, MetadataRequest
from barnabas.wire.schemas.groups import (
    FindCoordinatorRequest,
    ListGroupsRequest,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from barnabas.wire.schemas.topics import CreatableTopic, CreateTopicsRequest

pytestmark = pytest.mark.compat

TOPICS = ("hidden", "team-red", "team-blue", "open")
NAMES = (*TOPICS, "absent", "team-absent")
AUTHORIZATION = {29, 30, 31, 53, 65}
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
JAAS = f'{MODULE} required username="admin" password="a" user_admin="a";'
NOT_ASKED = {11, 14, 22, 24, 25, 26, 27, 28, 34, 45, 57, 64, 68, 80, 81}
"""Asked in rounds without any right only: what they come to when allowed would part the two, or take long."""


@contextmanager
def apache_with_acls(folder: Path, scripts: Path) -> Iterator[tuple[int, int]]:
    """The ports of an Apache Kafka with an authorizer: without login, and for its administrator."""
    clients, admins, controllers = (free_port() for _ in range(3))
    folder.mkdir()
    properties = folder / "server.properties"
    lines = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controllers}",
        "listeners": f"PLAINTEXT://127.0.0.1:{clients},ADMIN://127.0.0.1:{admins},"
        f"CONTROLLER://127.0.0.1:{controllers}",
        "inter.broker.listener.name": "ADMIN",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,ADMIN:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.admin.plain.sasl.jaas.config": JAAS,
        "listener.name.controller.plain.sasl.jaas.config": JAAS,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
        "log.dirs": str(folder / "data"),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
    }
    properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    storage = "kafka.tools.StorageTool"
    cluster = kafka_class(storage, "random-uuid").strip()
    kafka_class(storage, "format", "--standalone", "-t", cluster, "-c", str(properties))
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [scripts / "kafka-class.sh", "kafka.Kafka", str(properties)],
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "KAFKA_HEAP": "512m", "KAFKA_LOG": "warn"},
        )
    try:
        deadline = time.monotonic() + 90
        while True:
            try:
                _admin(admins).close()
                break
            except Exception:
                assert process.poll() is None and time.monotonic() < deadline, (
                    folder / "server.log"
                ).read_text()[-3000:]
                time.sleep(0.3)
        yield clients, admins
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def _admin(port: int) -> BlockingConnection:
    security = Security.parse({
        "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
        "sasl.username": "admin", "sasl.password": "a",
    })  # fmt: skip
    return BlockingConnection("127.0.0.1", port, security=security)


def drawn_acls(rng: random.Random, user: str, count: int) -> list[AclCreation]:
    """Rights that let nobody make, remove or alter anything."""
    harmless = {
        ResourceType.TOPIC: (*TOPICS, "team-", "*"),
        ResourceType.GROUP: ("g", "other", "*"),
        ResourceType.TRANSACTIONAL_ID: ("t", "*"),
        ResourceType.CLUSTER: ("kafka-cluster",),
    }
    quiet = (
        Operation.READ,
        Operation.WRITE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    )
    found = []
    while len(found) < count:
        kind = rng.choice(list(harmless))
        operation = rng.choice([op for op in OPERATIONS[kind] if op in quiet] or [Operation.DESCRIBE])
        name = rng.choice(harmless[kind])
        prefix = name == "team-" and kind is ResourceType.TOPIC
        found.append(
            acl(
                user,
                operation,
                kind,
                name,
                pattern=PatternType.PREFIXED if prefix else PatternType.LITERAL,
                permission=rng.choice((Permission.ALLOW, Permission.ALLOW, Permission.DENY)),
            )
        )
    return found


_IDENTITY = (
    "name",
    "topic_name",
    "topic",
    "group_id",
    "key",
    "transactional_id",
    "resource_name",
    "topic_id",
)
_PLACE = ("partition_index", "index", "partition", "partition_id", "producer_id")


def refusals(answer: Any, names: dict[Uuid, str]) -> dict[tuple[Any, ...], int]:
    """Place in the answer -> its code of authorization."""
    found: dict[tuple[Any, ...], int] = {}

    def walk(value: Any, where: tuple[Any, ...]) -> None:
        if isinstance(value, Message | Struct):
            own = [getattr(value, n) for n in (*_IDENTITY, *_PLACE) if n in value.__annotations__]
            here = (*where, *(names.get(x, x) if isinstance(x, Uuid) else x for x in own))
            here = tuple(x for x in here if x not in (None, "", Uuid(bytes(16))))
            for name in value.__annotations__:
                inner = getattr(value, name)
                if name in ("error_code", "partition_error_code", "topic_config_error_code"):
                    if inner in AUTHORIZATION:
                        found[*here, name] = inner
                else:
                    walk(inner, here)
        elif isinstance(value, list):
            for inner in value:
                walk(inner, where)

    walk(answer, ())
    return found


def shown(answer: Any) -> set[str]:
    """The names in a list."""
    rows = getattr(answer, "topics", None) or getattr(answer, "groups", None) or []
    return {row.name if hasattr(row, "name") else row.group_id for row in rows} - {
        "__consumer_offsets",
        "__transaction_state",
    }


def test_2000_requests_are_refused_as_by_apache_kafka(
    apache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(node: Secured) -> None:
        with apache_with_acls(tmp_path / "apache", apache) as (clients, admins):
            their_admin, our_admin = _admin(admins), await node.login()
            ids: list[dict[str, Uuid]] = []
            rows = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in TOPICS]
            made: Any = await our_admin.request(CreateTopicsRequest(topics=rows, timeout_ms=9000))
            ids.append({topic.name: topic.topic_id for topic in made.topics})
            made = their_admin.request(CreateTopicsRequest(topics=rows, timeout_ms=9000))
            ids.append({topic.name: topic.topic_id for topic in made.topics})
            await _coordinated(our_admin.request)
            await _coordinated(partial(asyncio.to_thread, their_admin.request))
            absent = Uuid(b"\x07" * 16)
            names = [{id_: name for name, id_ in known.items()} for known in ids]
            theirs = BlockingConnection("127.0.0.1", clients)
            ours: Any = await node.login("mallory")
            rng = random.Random(2000)
            asked = 0
            different: list[str] = []
            for number in range(16):
                acls = [] if number < 4 else drawn_acls(rng, "mallory", rng.choice((1, 4, 12)))
                await _replace_acls(node, their_admin, acls)
                keys = [
                    row for row in TABLE
                    if "B" in row.listeners and row.key in DENIED and row.key < 10_000
                    and (not acls or row.key not in NOT_ASKED)
                ]  # fmt: skip
                for _ in range(125):
                    row = rng.choice(keys)
                    name, version = rng.choice(NAMES), rng.randint(row.low, row.high)
                    kind = rng.random()
                    if kind < 0.06:
                        row_key, version = 3, rng.randint(4, 13)
                        requests: list[Message] = [MetadataRequest(topics=None)] * 2
                    elif kind < 0.09:
                        row_key, version, requests = 16, 5, [ListGroupsRequest()] * 2
                    elif kind < 0.12:
                        row_key, version, requests = 75, 0, [DescribeTopicPartitionsRequest()] * 2
                    else:
                        row_key = row.key
                        requests = [
                            request_of(row.key, version, name, known.get(name, absent)) for known in ids
                        ]
                    mine = await ours.request(requests[0], version)
                    try:
                        other = await asyncio.to_thread(theirs.request, requests[1], version, 20.0)
                    except RequestTimedOut as error:
                        raise AssertionError(
                            f"Apache Kafka does not answer {requests[1]} v{version}"
                        ) from error
                    asked += 1
                    a, b = refusals(mine, names[0]), refusals(other, names[1])
                    if kind < 0.12 and shown(mine) != shown(other):
                        different.append(
                            f"API {row_key} v{version} shows {shown(mine)}, Kafka {shown(other)}"
                        )
                    if a != b:
                        rights = "; ".join(
                            f"{x.permission_type} {x.operation} {x.resource_type}:{x.resource_name}"
                            for x in acls
                        )
                        different.append(f"API {row_key} v{version} {name} [{rights}]: ours {a}, Kafka {b}")
            theirs.close()
            their_admin.close()
            assert asked == 2000
            assert different == [], f"{len(different)} differ:\n" + "\n".join(different[:12])

    run_secured(tmp_path, monkeypatch, scenario, auto_create_topics_enable="true")


async def _coordinated(ask: Callable[..., Awaitable[Any]]) -> None:
    """Wait until groups and transactions have their coordinators."""
    wanted = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
    for _ in range(600):
        found = [
            (await ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=["g"]), 4)).coordinators[0]
            for kind in (0, 1)
        ]
        if not any(one.error_code for one in found) and not (await ask(wanted, 8)).groups[0].error_code:
            return
        await asyncio.sleep(0.05)
    raise AssertionError("no coordinators")


async def _replace_acls(node: Secured, their_admin: BlockingConnection, acls: list[AclCreation]) -> None:
    """These ACLs and no others, at both."""
    every = DeleteAclsFilter(
        resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1, principal_filter=None,
        host_filter=None, operation=1, permission_type=1,
    )  # fmt: skip
    our_admin = await node.login()
    for asker in (our_admin.request, their_admin.request):
        answer: Any = asker(DeleteAclsRequest(filters=[every]))
        if hasattr(answer, "__await__"):
            answer = await answer
        assert answer.filter_results[0].error_code == 0
    if acls:
        await node.create(*acls)
        theirs = [
            AclCreation(**{n: getattr(one, n) for n in one.__annotations__} | {"principal": "User:ANONYMOUS"})
            for one in acls
        ]
        answer = their_admin.request(CreateAclsRequest(creations=theirs))
        assert {result.error_code for result in answer.results} <= {0}
    wanted = len({tuple(getattr(one, n) for n in one.__annotations__) for one in acls})
    deadline = time.monotonic() + 10
    while True:
        found = their_admin.request(
            DescribeAclsRequest(
                resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1,
                principal_filter=None, host_filter=None, operation=1, permission_type=1,
            )
        )  # fmt: skip
        if sum(len(one.acls) for one in found.resources) == wanted:
            return
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)
