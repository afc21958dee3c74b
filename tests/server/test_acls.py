"""ACLs through the protocol: created, found, removed, kept over a restart, and in force at once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.server.secured import Secured, acl, run_secured

from barnabas.config import Config
from barnabas.errors import ErrorCode
from barnabas.security.acl import Acl, Operation, PatternType, Permission, ResourceType
from barnabas.server.loop.system import SystemClock
from barnabas.server.net.fetch_door import FetchDoor
from barnabas.server.rights.authorizer import SLICE, NodeAuthorizer
from barnabas.settings.table_access import STANDARD_AUTHORIZER
from barnabas.wire.schemas.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from barnabas.wire.schemas.cluster import MetadataRequest, MetadataRequestTopic
from barnabas.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.schemas.topics import CreatableTopic, CreateTopicsRequest

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
EVERYTHING = DescribeAclsRequest(
    resource_type_filter=1,
    resource_name_filter=None,
    pattern_type_filter=1,
    principal_filter=None,
    host_filter=None,
    operation=1,
    permission_type=1,
)


def filter_of(**fields: Any) -> DeleteAclsFilter:
    names = DeleteAclsFilter.__annotations__
    anything: dict[str, Any] = {name: getattr(EVERYTHING, name) for name in names}
    return DeleteAclsFilter(**{**anything, **fields})


def found(answer: Any) -> set[tuple[Any, ...]]:
    return {
        (
            r.resource_type,
            r.resource_name,
            r.pattern_type,
            a.principal,
            a.host,
            a.operation,
            a.permission_type,
        )
        for r in answer.resources
        for a in r.acls
    }


def test_acls_are_created_found_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(node: Secured) -> None:
        admin = await node.login()
        one, two = (
            acl("alice", READ, TOPIC, "orders"),
            acl("bob", WRITE, TOPIC, "ord", pattern=PatternType.PREFIXED),
        )
        made: Any = await admin.request(CreateAclsRequest(creations=[one, two, one]))
        assert [r.error_code for r in made.results] == [0, 0, 0]  # what is there already is no error
        assert found(await admin.request(EVERYTHING)) == {
            (2, "orders", 3, "User:alice", "*", 3, 3),
            (2, "ord", 4, "User:bob", "*", 4, 3),
        }
        matching: Any = await admin.request(
            DeleteAclsRequest(filters=[filter_of(resource_name_filter="orders", pattern_type_filter=2)])
        )
        assert {m.principal for m in matching.filter_results[0].matching_acls} == {"User:alice", "User:bob"}
        assert found(await admin.request(EVERYTHING)) == set()

    run_secured(tmp_path, monkeypatch, scenario)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"resource_type": 4, "resource_name": "other"}, "The only valid name for the CLUSTER"),
        ({"resource_name": ""}, "empty resource name"),
        ({"resource_type": 1}, "Invalid resourceType ANY"),
        ({"resource_type": 99}, "Invalid resourceType UNKNOWN"),
        ({"resource_pattern_type": 2}, "Invalid patternType MATCH"),
        ({"operation": 1}, "Invalid operation ANY"),
        ({"permission_type": 1}, "Invalid permissionType ANY"),
        ({"principal": "alice"}, "no colon"),
    ],
)
def test_an_acl_that_cannot_be_meant_is_refused_in_kafkas_words(
    fields: dict[str, Any], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = acl("alice", READ, TOPIC, "t")
    bad = AclCreation(**{**{name: getattr(good, name) for name in good.__annotations__}, **fields})

    async def scenario(node: Secured) -> None:
        admin = await node.login()
        answer: Any = await admin.request(CreateAclsRequest(creations=[bad, good]))
        assert [r.error_code for r in answer.results] == [ErrorCode.INVALID_REQUEST, 0]
        assert words in answer.results[0].error_message

    run_secured(tmp_path, monkeypatch, scenario)


def test_acls_survive_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def first(node: Secured) -> None:
        await node.allow("alice", READ, TOPIC, "orders")

    async def second(node: Secured) -> None:
        admin = await node.login()
        assert {row[1] for row in found(await admin.request(EVERYTHING))} == {"orders"}

    run_secured(tmp_path, monkeypatch, first)
    run_secured(tmp_path, monkeypatch, second)


def test_an_acl_counts_from_the_next_request_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(node: Secured) -> None:
        admin, alice = await node.login(), await node.login("alice")
        await admin.request(
            CreateTopicsRequest(
                topics=[CreatableTopic(name="orders", num_partitions=1, replication_factor=1)]
            )
        )

        async def seen() -> int:
            asked = MetadataRequest(
                topics=[MetadataRequestTopic(name="orders")], allow_auto_topic_creation=False
            )
            answer: Any = await alice.request(asked)
            return int(answer.topics[0].error_code)

        assert await seen() == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        await node.allow("alice", DESCRIBE, TOPIC, "orders")
        assert await seen() == 0
        await node.create(acl("alice", DESCRIBE, TOPIC, "orders", permission=Permission.DENY))
        assert await seen() == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        await admin.request(DeleteAclsRequest(filters=[filter_of(permission_type=int(Permission.DENY))]))
        assert await seen() == 0

    run_secured(tmp_path, monkeypatch, scenario)


def test_only_who_may_alter_the_cluster_changes_acls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(node: Secured) -> None:
        for controller in (False, True):
            alice: Any = await node.login("alice", controller=controller)
            made = await alice.request(CreateAclsRequest(creations=[acl("alice", READ, TOPIC, "t")] * 2))
            denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            assert [r.error_code for r in made.results] == [denied, denied]
            gone = await alice.request(DeleteAclsRequest(filters=[filter_of()]))
            assert [r.error_code for r in gone.filter_results] == [denied]
        alice = await node.login("alice")
        assert (await alice.request(EVERYTHING)).error_code == denied
        admin = await node.login()
        assert found(await admin.request(EVERYTHING)) == set()

    run_secured(tmp_path, monkeypatch, scenario)


def test_many_acls_are_loaded_in_slices_and_count_when_all_are_there() -> None:
    """A node that starts with 100,000 of them had a step of 1.3 s."""
    image: Any = SimpleNamespace(acls={n: allowing(f"t{n}") for n in range(3 * SLICE)})
    config = Config.load({"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"})
    authorizer = NodeAuthorizer(config, image, SystemClock())

    def may(topic: str) -> bool:
        return authorizer.rules.decide("User:alice", "10.0.0.1", READ, TOPIC, topic).allowed

    async def whole() -> list[bool]:
        loading = asyncio.ensure_future(authorizer.load())
        seen = []
        while not loading.done():
            await asyncio.sleep(0)
            if not seen:  # what commits meanwhile is not lost
                del image.acls[7]
                image.acls[-1] = allowing("late")
                authorizer.changed(SimpleNamespace(acls={7, -1}, image=image))  # type: ignore[arg-type]
            seen.append(may("t1"))
        return seen

    seen = asyncio.run(whole())
    assert len(seen) >= 3 and not seen[0]
    assert may("t1") and may("late") and may(f"t{3 * SLICE - 1}") and not may("t7")


def allowing(topic: str) -> Acl:
    return Acl(TOPIC, topic, PatternType.LITERAL, "User:alice", "*", READ, Permission.ALLOW)


@pytest.mark.parametrize("version", [11, 17])
@pytest.mark.parametrize("in_session", [False, True])
def test_a_right_to_read_that_is_taken_away_is_missed_by_the_next_of_many_equal_fetches(
    version: int, in_session: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[bool] = []
    original = FetchDoor.take

    def take(self: FetchDoor, *arguments: Any) -> bool:
        taken.append(original(self, *arguments))
        return taken[-1]

    async def scenario(node: Secured) -> None:
        admin, alice = await node.login(), await node.login("alice")
        made: Any = await admin.request(
            CreateTopicsRequest(
                topics=[CreatableTopic(name="orders", num_partitions=1, replication_factor=1)]
            )
        )
        session, epoch = 0, 0 if in_session else -1

        async def fetched() -> tuple[int, bool]:
            """The error, and whether the fetch was recognized."""
            nonlocal session, epoch
            taken.append(False)
            topic = FetchTopic(
                topic="orders", topic_id=made.topics[0].topic_id, partitions=[FetchPartition(partition=0)]
            )
            asked = FetchRequest(session_id=session, session_epoch=epoch, topics=[topic])
            answer: Any = await alice.request(asked, version)
            session, epoch = answer.session_id, epoch + 1 if in_session else epoch
            assert not answer.error_code
            rows = [row for topic in answer.responses for row in topic.partitions]
            return max((row.error_code for row in rows), default=0), taken[-1]

        denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert await fetched() == (denied, False)
        await node.allow("alice", READ, TOPIC, "orders")
        for _ in range(3):
            last = await fetched()
        assert last == (0, True)
        await node.create(acl("alice", READ, TOPIC, "orders", permission=Permission.DENY))
        for _ in range(3):
            assert (await fetched())[0] == denied
        await admin.request(DeleteAclsRequest(filters=[filter_of(permission_type=int(Permission.DENY))]))
        for _ in range(3):
            last = await fetched()
        assert last == (0, True)

    monkeypatch.setattr(FetchDoor, "take", take)
    run_secured(tmp_path, monkeypatch, scenario)
