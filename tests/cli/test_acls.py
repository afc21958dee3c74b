"""`barnabas acls`, word for word, against a real node with an authorizer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.cli.shell import Shell
from tests.server.secured import Secured, run_secured

from barnabas.cli.acls import acls
from barnabas.cli.main import main
from barnabas.client.admin.acls import _raise
from barnabas.errors import ErrorCode, KafkaError
from barnabas.settings.table_access import STANDARD_AUTHORIZER
from barnabas.testing import Cluster
from barnabas.wire.schemas.cluster import MetadataRequest, MetadataRequestTopic
from barnabas.wire.schemas.configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from barnabas.wire.schemas.topics import CreatableTopic, CreateTopicsRequest


@pytest.fixture(scope="module")
def kafka() -> Iterator[Cluster]:
    """A node with an authorizer; the command line is a super user."""
    settings = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS;User:root"}
    with Cluster(settings) as cluster:
        yield cluster


@pytest.fixture
def no_acls(shell: Shell) -> Iterator[None]:
    yield
    for row in shell.document("acls list")["acls"]:
        kind = {"transactional_id": "transactional-id"}.get(row["resource"], row["resource"])
        where = "--cluster" if kind == "cluster" else f"--{kind} {row['name']}"
        line = f"acls remove --{row['permission']}-principal {row['principal']} {where}"
        line += f" --operation {row['operation']} --{row['permission']}-host {row['host']}"
        assert shell(f"{line} --resource-pattern-type {row['pattern']}") == 0, shell.err


@pytest.mark.usefixtures("no_acls")
def test_acls_are_added_listed_and_removed(shell: Shell) -> None:
    assert (
        shell("acls add --allow-principal User:alice --operation Read --operation write --topic orders") == 0
    )
    assert shell.out.splitlines() == [
        "RESOURCE  NAME    PATTERN  PRINCIPAL   HOST  OPERATION  PERMISSION",
        "topic     orders  literal  User:alice  *     Read       allow",
        "topic     orders  literal  User:alice  *     Write      allow",
        "Added 2 ACLs.",
    ]
    assert shell("acls add --deny-principal User:bob --deny-host 10.0.0.1 --topic ord "
                 "--resource-pattern-type prefixed") == 0  # fmt: skip
    assert shell("acls list --topic orders --resource-pattern-type match") == 0
    assert [line.split()[3] for line in shell.out.splitlines()[1:]] == [
        "User:bob",
        "User:alice",
        "User:alice",
    ]
    assert shell("acls remove --allow-principal User:alice --operation Read --topic orders") == 0
    assert shell.out.splitlines()[-1] == "Removed 1 ACL."
    assert shell("acls remove --allow-principal User:alice --operation Read --topic orders") == 0
    assert shell.out == "There was no such ACL.\n"
    assert shell("acls list --principal User:bob") == 0
    assert shell.out.splitlines()[1:] == ["topic     ord   prefixed  User:bob   10.0.0.1  All        deny"]


@pytest.mark.usefixtures("no_acls")
def test_one_flag_gives_a_consumer_or_a_producer_all_it_needs(shell: Shell) -> None:
    def given(line: str) -> set[tuple[str, str]]:
        return {(row["resource"], row["operation"]) for row in shell.document(line)["acls"]}

    consumer = "acls add --allow-principal User:alice --consumer --topic orders --group billing"
    assert given(consumer) == {("topic", "Read"), ("topic", "Describe"), ("group", "Read")}
    producer = (
        "acls add --allow-principal User:eve --producer --idempotent --topic orders --transactional-id t"
    )
    assert given(producer) == {
        ("topic", "Write"),
        ("topic", "Describe"),
        ("topic", "Create"),
        ("transactional_id", "Write"),
        ("transactional_id", "Describe"),
        ("cluster", "IdempotentWrite"),
    }


@pytest.mark.usefixtures("no_acls")
def test_check_names_the_rule_that_decides(shell: Shell) -> None:
    assert shell("acls add --allow-principal User:alice --operation Read --topic orders") == 0
    assert shell("acls check --principal User:alice --operation Read --topic orders") == 0
    assert shell.out == "User:alice may: ALLOW User:alice READ on TOPIC:LITERAL:orders from *\n"
    assert shell("acls check --principal User:alice --operation Write --topic orders") == 0
    assert shell.out.splitlines() == [
        "User:alice may not: the resource has ACLs, and none of them allows this",
        "  next: barnabas acls add --allow-principal User:alice --operation Write --topic orders",
    ]
    assert shell("acls check --principal User:root --operation Alter --cluster") == 0
    assert shell.out == "User:root may: the principal is in super.users\n"
    assert (
        shell("acls add --deny-principal User:* --deny-host ::ffff:10.0.0.1 --operation Read --topic *") == 0
    )
    assert shell("acls check --principal User:alice --operation Read --topic orders --host 10.0.0.1") == 0
    assert shell.out == "User:alice may not: DENY User:* READ on TOPIC:LITERAL:* from ::ffff:10.0.0.1\n"


def told(**settings: str | None) -> DescribeConfigsResponse:
    configs = [
        DescribeConfigsResourceResult(name=name.replace("_", "."), value=value)
        for name, value in settings.items()
    ]
    return DescribeConfigsResponse(results=[DescribeConfigsResult(configs=configs)])


def test_check_says_nothing_where_the_super_users_cannot_be_known() -> None:
    """Somebody without DescribeConfigs on the cluster would be told that a super user may not."""
    asked: list[Any] = []
    connection = SimpleNamespace(request=lambda message: asked.append(message) or told())
    cluster = SimpleNamespace(brokers=lambda: [SimpleNamespace(id=7)], connection=lambda broker: connection)
    with pytest.raises(KafkaError, match="nobody can say who its super users are"):
        acls._settings(cluster)
    assert [asked[0].resources[0].resource_name] == ["7"]


@pytest.mark.usefixtures("no_acls")
def test_check_says_what_apache_kafka_does_not_tell(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """To it super.users is a setting of somebody's own, whose value may be a secret."""
    line = "acls check --principal User:root --operation Alter --cluster"
    for settings, unsure in (
        ({"super.users": None}, True),
        ({}, False),
        ({"super.users": "User:root"}, False),
    ):
        monkeypatch.setattr(acls, "_settings", lambda cluster, settings=settings: settings)
        assert ("unless User:root is one of super.users" in shell.document(line)["rule"]) == unsure


@pytest.mark.usefixtures("no_acls")
def test_a_range_of_addresses_is_denied(shell: Shell) -> None:
    assert shell("acls add --allow-principal User:alice --operation Read --topic orders") == 0
    deny = "acls add --deny-principal User:* --deny-host 10.0.0.0/8 --operation Read --topic orders"
    assert shell(deny) == 0, shell.err
    for host, said in (("10.9.9.9", "may not: DENY"), ("11.0.0.1", "may: ALLOW")):
        shell(f"acls check --principal User:alice --operation Read --topic orders --host {host}")
        assert shell.out.startswith(f"User:alice {said}"), shell.out


def test_a_range_that_the_cluster_cannot_have_yet_is_refused_with_the_way_to_it() -> None:
    with pytest.raises(KafkaError, match=r"4\.4-IV1") as caught:
        _raise(ErrorCode.UNSUPPORTED_VERSION, "require metadata version 4.4-IV1 or higher")
    assert "barnabas features upgrade --release-version 4.4" in (caught.value.next_step or "")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("acls add --allow-principal User:alice", "say on what"),
        ("acls add --topic t", "say for whom"),
        ("acls add --allow-principal alice --topic t", "write User:alice"),
        ("acls add --allow-principal User:a --topic t --operation Fly", "there is no operation Fly"),
        (
            "acls add --allow-principal User:a --topic t --operation ClusterAction",
            "on a resource of type Topic",
        ),
        (
            "acls add --allow-principal User:a --topic t --allow-host db.example.com",
            "names of hosts never match",
        ),
        ("acls add --deny-principal User:a --topic t --deny-host 10.0.0.0/33", "no range of addresses"),
        (
            "acls add --allow-principal User:a --topic t --producer --operation Read",
            "--producer and --consumer",
        ),
        ("acls check --principal User:a --operation Read", "one principal and one resource"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_next_step(shell: Shell, line: str, words: str) -> None:
    assert shell(line) == 2
    assert words in shell.err and "next:" in shell.err


def test_why_tells_who_was_refused_and_the_command_that_allows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command it prints is typed, and then it works."""

    async def scenario(node: Secured) -> None:
        bootstrap = "{}:{}".format(*node.node.address)

        async def typed(words: list[str]) -> str:
            assert await asyncio.to_thread(main, [*words, "--bootstrap-server", bootstrap]) == 0
            return capsys.readouterr().out

        assert await typed(["acls", "why"]) == "Nobody was refused anything since the nodes started.\n"
        alice: Any = await node.login("alice")
        question = MetadataRequest(
            topics=[MetadataRequestTopic(name="orders")], allow_auto_topic_creation=False
        )
        assert (await alice.request(question)).topics[0].error_code == 29
        said = (await typed(["acls", "why", "--principal", "User:alice"])).splitlines()
        assert "node 1: User:alice from 127.0.0.1: Describe on topic orders" in said[0]
        assert said[1] == "  Metadata, once; no ACL allows this (allow.everyone.if.no.acl.found is false)"
        command = said[2].removeprefix("  next: barnabas ")
        assert command == "acls add --allow-principal User:alice --operation Describe --topic orders"
        await typed(command.split())
        assert (await alice.request(question)).topics[0].error_code == 3  # unknown, not hidden

    run_secured(tmp_path, monkeypatch, scenario)


def test_why_asks_the_controllers_where_these_have_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def scenario(node: Secured) -> None:
        controller: Any = await node.login("alice", controller=True)
        assert (await controller.request(CreateTopicsRequest())).topics == []
        named = CreatableTopic(name="orders", num_partitions=1, replication_factor=1)
        answer = await controller.request(CreateTopicsRequest(topics=[named]))
        assert answer.topics[0].error_code == 29
        endpoint = next(one.endpoint for one in node.node.listeners if one.kind == "C")
        words = ["acls", "why", "--bootstrap-controller", f"127.0.0.1:{endpoint.port}"]
        assert await asyncio.to_thread(main, words) == 0
        said = capsys.readouterr().out
        assert "node 1: User:alice from 127.0.0.1: Create on topic orders" in said
        assert (
            "next: barnabas acls add --allow-principal User:alice --operation Create --topic orders" in said
        )

    run_secured(tmp_path, monkeypatch, scenario)


def test_without_an_authorizer_the_command_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def scenario(node: Secured) -> None:
        words = ["acls", "list", "--bootstrap-server", "{}:{}".format(*node.node.address)]
        assert await asyncio.to_thread(main, words) == 1
        assert "no authorizer" in capsys.readouterr().err

    run_secured(tmp_path, monkeypatch, scenario, authorizer_class_name="")
