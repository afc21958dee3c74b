"""Apache Kafka's own tools make the users of a node; a running Apache Kafka answers the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.compat.conftest import kafka_class
from tests.compat.secured import SecuredKafka
from tests.server.quorum_processes import eventually
from tests.server.test_logins import PLAIN
from tools.peer import CONFIGS

from barnabas.client.admin.admin import Admin
from barnabas.client.blocking import BlockingConnection
from barnabas.testing.cluster import Cluster, free_ports
from barnabas.wire.schemas.sasl import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)

pytestmark = pytest.mark.compat

MECHANISMS = ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"]


class Node:
    """A node with an open listener and LOGIN."""

    def __init__(self) -> None:
        self.port = free_ports()
        self.cluster = Cluster(
            {
                "listeners": f"PLAINTEXT://127.0.0.1:0,LOGIN://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:0",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
                "sasl.enabled.mechanisms": ",".join(MECHANISMS),
                "listener.name.login.plain.sasl.jaas.config": f"{PLAIN} required;",
            }
        )
        self.login = f"127.0.0.1:{self.port}"

    def tool(self, name: str, *arguments: str, stdin: str | None = None) -> str:
        return kafka_class(name, "--bootstrap-server", self.cluster.bootstrap, *arguments, stdin=stdin)


@pytest.fixture(scope="module")
def node(apache: Path) -> Iterator[Node]:
    """Its user ada is made by Apache Kafka's tool, as are all that these tests look at."""
    running = Node()
    with running.cluster:
        add = (CONFIGS, "--alter", "--entity-type", "users", "--entity-name", "ada")
        for mechanism in MECHANISMS[:2]:
            running.tool(*add, "--add-config", f"{mechanism}=[iterations=8192,password=ada-secret]")
        yield running


def test_apache_kafkas_tool_shows_and_deletes_users(node: Node) -> None:
    words = (CONFIGS, "--entity-type", "users", "--entity-name")
    shown = node.tool(*words, "ada", "--describe")
    assert "SCRAM-SHA-256=iterations=8192" in shown and "SCRAM-SHA-512=iterations=8192" in shown
    node.tool(*words, "tom", "--alter", "--add-config", "SCRAM-SHA-256=[password=toms-secret]")
    assert "SCRAM-SHA-256=iterations=4096" in node.tool(*words, "tom", "--describe")
    node.tool(*words, "tom", "--alter", "--delete-config", "SCRAM-SHA-256")
    assert "SCRAM" not in node.tool(*words, "tom", "--describe")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_user_whom_the_tool_has_made_logs_in(node: Node, mechanism: str) -> None:
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "ada",
        "sasl.password": "ada-secret",
    }
    with Admin(node.login, security=login) as admin:
        assert len(admin.describe_cluster().brokers) == 1


def test_users_are_changed_and_described_as_at_an_apache_kafka(node: Node, tmp_path: Path) -> None:
    def up(name: str, mechanism: int = 1, iterations: int = 4096) -> ScramCredentialUpsertion:
        return ScramCredentialUpsertion(
            name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=b"s" * 32
        )

    def gone(name: str, mechanism: int = 1) -> ScramCredentialDeletion:
        return ScramCredentialDeletion(name=name, mechanism=mechanism)

    def change(*changes: ScramCredentialUpsertion | ScramCredentialDeletion) -> Any:
        return AlterUserScramCredentialsRequest(
            upsertions=[c for c in changes if isinstance(c, ScramCredentialUpsertion)],
            deletions=[c for c in changes if isinstance(c, ScramCredentialDeletion)],
        )

    def asked(*names: str) -> Any:
        return DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in names])

    talk = [
        change(up("x"), up("y", 2), up("")),
        change(up("x", 0), up("z", 3), up("few", 1, 4095), up("many", 1, 16385)),
        change(up("two", 1), up("two", 2)),
        change(up("both"), gone("both")),
        change(gone("none"), gone("x", 2), gone("", 1), gone("y", 9)),
        asked("x", "y", "nobody", "x"),
        asked("x", ""),
        change(gone("x"), up("y", 1, 5000)),
        asked("x", "y"),
        change(),
    ]
    kafka = SecuredKafka(tmp_path)
    try:
        kafka.start()
        host, _, port = node.cluster.bootstrap.partition(":")
        with (
            BlockingConnection(host, int(port)) as ours,
            BlockingConnection("127.0.0.1", kafka.ports["PLAIN"]) as theirs,
        ):
            for request in talk:
                said = _sorted(ours.request(request))
                if isinstance(
                    request, DescribeUserScramCredentialsRequest
                ):  # its broker hears of a change later
                    eventually(lambda: _sorted(theirs.request(request)) == said, 30, str(request))  # noqa: B023
                else:
                    assert said == _sorted(theirs.request(request)), request
    finally:
        kafka.stop()


def _sorted(answer: Any) -> Any:
    """Without what may differ: the order of users, and of what each has (Kafka's is that of a hash map)."""
    rows = [
        (
            row.user,
            row.error_code,
            row.error_message or None,
            sorted(getattr(row, "credential_infos", []), key=repr),
        )
        for row in answer.results
    ]
    return sorted(rows, key=repr)
