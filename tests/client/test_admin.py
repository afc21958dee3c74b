"""Managing a cluster, with either client: topics, records, users and what they may; work that is written once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.client.conftest import Clients
from tests.client.fake_broker import FakeBroker
from tests.patience import PATIENCE_S

from barnabas import Producer
from barnabas.client.admin.acls import AclRow
from barnabas.client.admin.users import UserCredential
from barnabas.client.both.awaited import at_once
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import TopicPartition
from barnabas.security.acl import Operation, PatternType, Permission, ResourceType
from barnabas.testing import Cluster
from barnabas.wire.schemas.acls import (
    AclCreationResult,
    AclDescription,
    CreateAclsRequest,
    CreateAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)


def test_records_before_an_offset_are_deleted(clients: Clients, kafka: Cluster, topic: str) -> None:
    first, second, third = (TopicPartition(topic, number) for number in range(3))
    with clients.admin(kafka.bootstrap) as admin:
        admin.create_topic(topic, partitions=2)
        with Producer(kafka.bootstrap) as producer:
            for number in range(10):
                producer.send(topic, b"x", partition=number % 2).result(PATIENCE_S)
        assert admin.delete_records({first: 3, second: -1}) == {first: 3, second: 5}
        assert [at.offset for at in admin.offsets(topic, "earliest").values()] == [3, 5]
        with pytest.raises(KafkaError) as beyond:
            admin.delete_records({first: 99})
        assert beyond.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
        assert f"barnabas topics describe {topic}" in (beyond.value.next_step or "")
        with pytest.raises(KafkaError, match="has no partition 2"):
            admin.delete_records({third: 0})


def test_a_user_comes_and_goes(clients: Clients, kafka: Cluster) -> None:
    name = f"ada-{clients.kind}"
    with clients.admin(kafka.bootstrap) as admin:
        admin.set_password(name, "secret")
        mine = [one for one in admin.users() if one.user == name]
        assert mine == [UserCredential(name, "SCRAM-SHA-512", mine[0].iterations)]
        admin.remove_user(name)
        assert name not in {one.user for one in admin.users()}
        with pytest.raises(KafkaError):
            admin.remove_user(name)


def test_acls_are_asked_for_and_made(clients: Clients) -> None:
    row = AclRow(
        ResourceType.TOPIC, "t", PatternType.LITERAL, "User:ada", "*", Operation.READ, Permission.ALLOW
    )
    with FakeBroker() as broker:
        broker.api_versions |= {kind.KEY: kind.VERSIONS for kind in (CreateAclsRequest, DescribeAclsRequest)}
        acl = AclDescription(principal="User:ada", host="*", operation=3, permission_type=3)
        told = DescribeAclsResource(resource_type=2, resource_name="t", pattern_type=3, acls=[acl])
        broker.on(DescribeAclsRequest, lambda _: DescribeAclsResponse(resources=[told]))
        refused = AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message="no authorizer")
        broker.on(CreateAclsRequest, lambda _: CreateAclsResponse(results=[refused]))
        with clients.admin(broker.address) as admin:
            assert admin.acls() == [row]
            with pytest.raises(KafkaError, match="no authorizer"):
                admin.create_acls([row])
    [asked] = broker.asked(CreateAclsRequest)
    assert [(one.resource_name, one.principal, one.operation) for one in asked.creations] == [
        ("t", "User:ada", 3)
    ]


def test_work_that_waits_for_a_loop_is_not_run_at_once() -> None:
    class Later:
        def __await__(self) -> Iterator[None]:
            yield

    async def wait() -> None:
        await Later()

    work = wait()
    with pytest.raises(AssertionError, match="waits for a loop"):
        at_once(work)
    work.close()
