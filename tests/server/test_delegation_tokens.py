"""Delegation tokens at a node: logins with them, what such a login may not do, and when it is over."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.delegation import MECHANISMS, TokenNode, by_token
from tests.server.test_logins import options

from barnabas.client.admin.admin import Admin
from barnabas.client.connection import ConnectionFailed
from barnabas.client.consumer import Consumer
from barnabas.client.producer import Producer
from barnabas.client.security.login import AuthenticationFailed
from barnabas.errors import ErrorCode
from barnabas.security.acl import Operation, ResourceType
from barnabas.settings.table_access import STANDARD_AUTHORIZER
from barnabas.testing.cluster import Cluster
from barnabas.wire.schemas.acls import AclCreation, CreateAclsRequest
from barnabas.wire.schemas.cluster import MetadataRequest
from barnabas.wire.schemas.sasl import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)

NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
MAKE = CreateDelegationTokenRequest(max_lifetime_ms=-1)
ALL = DescribeDelegationTokenRequest(owners=None)
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.fixture(scope="module")
def node() -> Iterator[TokenNode]:
    """With an authorizer: ada may write topics; nobody but ANONYMOUS (the test itself) is a super user."""
    running = TokenNode(authorizer_class_name=STANDARD_AUTHORIZER, **{"super.users": "User:ANONYMOUS"})
    with running.cluster:
        running.add_users()
        with running.plain() as admin:
            rights = [
                (ResourceType.TOPIC, "*", operation)
                for operation in (Operation.CREATE, Operation.WRITE, Operation.READ)
            ]
            rights.append((ResourceType.USER, "User:tom", Operation.CREATE_TOKENS))
            creations = [
                AclCreation(
                    resource_type=kind,
                    resource_name=name,
                    resource_pattern_type=3,
                    principal="User:ada",
                    host="*",
                    operation=operation,
                    permission_type=3,
                )
                for kind, name, operation in rights
            ]
            answer = admin.request(CreateAclsRequest(creations=creations))
            assert [one.error_code for one in answer.results] == [0] * len(creations)
        yield running


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_whoever_brings_a_token_is_its_owner(node: TokenNode, mechanism: str) -> None:
    with node.connect() as ada:
        made = ada.request(MAKE)
    security, topic = by_token(made, mechanism), f"t-{mechanism}"
    with Producer(node.login, security=security) as producer:  # ada's rights
        for number in range(100):
            producer.send(topic, b"%d" % number)
    with Consumer(node.login, topic, start="earliest", idle=0.5, security=security) as consumer:
        assert len(list(consumer)) == 100


def test_a_token_makes_no_other_token(node: TokenNode) -> None:
    with node.connect() as ada:
        made = ada.request(MAKE)
        before = len(ada.request(ALL).tokens)
    with node.bearer(made) as bearer:
        assert bearer.request(MAKE).error_code == NOT_ALLOWED
        assert bearer.request(RenewDelegationTokenRequest(hmac=made.hmac)).error_code == NOT_ALLOWED
        assert bearer.request(ExpireDelegationTokenRequest(hmac=made.hmac)).error_code == NOT_ALLOWED
        assert bearer.request(ALL).error_code == NOT_ALLOWED
    with node.connect() as ada:
        assert len(ada.request(ALL).tokens) == before


def test_nobody_who_has_not_said_who_it_is_has_tokens(node: TokenNode) -> None:
    with node.plain() as anonymous:  # a super user, even
        for request in (MAKE, ALL, RenewDelegationTokenRequest(), ExpireDelegationTokenRequest()):
            assert anonymous.request(request).error_code == NOT_ALLOWED


def test_tokens_for_another_need_the_right_and_are_seen_by_whom_they_concern(node: TokenNode) -> None:
    for_tom = CreateDelegationTokenRequest(
        max_lifetime_ms=-1, owner_principal_type="User", owner_principal_name="tom"
    )
    for_ada = CreateDelegationTokenRequest(
        max_lifetime_ms=-1, owner_principal_type="User", owner_principal_name="ada"
    )
    with node.connect("ada") as ada, node.connect("tom") as tom:
        made = ada.request(for_tom)
        assert made.error_code == 0 and made.principal_name == "tom"
        refused = tom.request(for_ada)
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED and not refused.hmac
        own = ada.request(MAKE)
        seen = {token.token_id for token in tom.request(ALL).tokens}
        assert made.token_id in seen and own.token_id not in seen
        assert {made.token_id, own.token_id} <= {token.token_id for token in ada.request(ALL).tokens}


@pytest.mark.parametrize("wrong", ["id", "hmac", "user"])
def test_a_token_that_is_none_is_refused_and_told_no_more(node: TokenNode, wrong: str) -> None:
    with node.connect() as ada:
        made = ada.request(MAKE)
    before = len(node.cluster.log())
    with pytest.raises(AuthenticationFailed) as refused:
        if wrong == "user":  # its id and HMAC, without saying that they are a token's
            node.connect(made.token_id, by_token(made, "SCRAM-SHA-256").sasl.password)  # type: ignore[union-attr]
        elif wrong == "id":
            made.token_id = "A" * 22
            node.bearer(made)
        else:
            made.hmac = bytes(64)
            node.bearer(made)
    assert "invalid credentials" in str(refused.value) and "no " not in str(refused.value).partition("\n")[0]
    said = node.cluster.log()[before:]
    expected = {
        "id": "there is no delegation token",
        "hmac": "password of delegation token",
        "user": "no user",
    }
    assert expected[wrong] in said


def test_a_token_that_is_ended_takes_its_connections_along(node: TokenNode) -> None:
    with node.connect() as ada:
        made, other = ada.request(MAKE), ada.request(MAKE)
        lines = [node.bearer(made, mechanism) for mechanism in MECHANISMS]
        beside = node.bearer(other)
        assert (
            ada.request(ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=-1)).error_code
            == 0
        )
        for line in lines:
            with pytest.raises(ConnectionFailed):
                line.request(MetadataRequest(topics=[]))
        assert beside.request(MetadataRequest(topics=[])).brokers and ada.request(ALL).error_code == 0
        with pytest.raises(AuthenticationFailed):
            node.bearer(made)
    assert "its delegation token was removed" in node.cluster.log()


def test_a_connection_ends_when_its_token_does(node: TokenNode) -> None:
    with node.connect() as ada:
        made = ada.request(CreateDelegationTokenRequest(max_lifetime_ms=60_000))
        with node.bearer(made) as line:
            line._renew_at = float("inf")
            sooner = ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=700)
            assert ada.request(sooner).error_code == 0
            assert line.request(MetadataRequest(topics=[])).brokers, "it counts until then"
            deadline = time.monotonic() + 1.7
            with pytest.raises(ConnectionFailed):
                while time.monotonic() < deadline:
                    line.request(MetadataRequest(topics=[]))
        with pytest.raises(AuthenticationFailed):
            node.bearer(made)
        late = ada.request(RenewDelegationTokenRequest(hmac=made.hmac, renew_period_ms=-1))
        assert late.error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED


def test_no_secret_of_a_token_is_in_the_log_or_in_the_directory(node: TokenNode) -> None:
    with node.connect() as ada:
        made = ada.request(MAKE)
    word = by_token(made, "SCRAM-SHA-256").sasl.password  # type: ignore[union-attr]
    with node.bearer(made):
        log = node.cluster.log()
    assert word not in log and "a-secret-of-all-nodes" not in log
    for file in Path(node.cluster.nodes[0].data).rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            assert bytes(made.hmac) not in content and word.encode() not in content, file


def test_a_token_made_at_one_node_counts_at_all_and_after_a_restart() -> None:
    """Three nodes: requests travel in envelopes, which say who came by a token."""
    node = f'{PLAIN} required username="node" password="nodes-secret" user_node="nodes-secret";'
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": node,
        "listener.name.controller.plain.sasl.jaas.config": node,
        "delegation.token.secret.key": "a-secret-of-all-nodes",
    }
    security = options("PLAIN", "node", "nodes-secret")
    with Cluster(settings, nodes=3, security=security) as kafka:
        from barnabas.client.blocking import BlockingConnection
        from barnabas.client.security.options import Security

        ports = [int(address.rpartition(":")[2]) for address in kafka.bootstrap.split(",")]
        made = []
        for port in ports:
            with BlockingConnection("127.0.0.1", port, security=Security.parse(security)) as line:
                made.append(line.request(MAKE))
        assert [one.error_code for one in made] == [0, 0, 0]
        kafka.restart(2)
        for number, one in enumerate(made):
            port = ports[(number + 1) % 3]
            with BlockingConnection("127.0.0.1", port, security=by_token(one, "SCRAM-SHA-256")) as bearer:
                assert bearer.request(MetadataRequest(topics=[])).brokers
                assert bearer.request(MAKE).error_code == NOT_ALLOWED
        with Admin(kafka.bootstrap, security=by_token(made[0], "SCRAM-SHA-256")) as admin:
            admin.create_topic("t", partitions=1, replication=3)
