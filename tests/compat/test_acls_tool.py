"""Apache Kafka's own `kafka-acls` against our node: add, list, remove, and what it prints."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.compat.conftest import NodeProcess, kafka_class, run_kafka_class

pytestmark = pytest.mark.compat

ACL_COMMAND = "org.apache.kafka.tools.AclCommand"
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[NodeProcess]:
    """A node with an authorizer, whose only user is a super user."""
    node = NodeProcess(tmp_path / "node")
    for name, value in AUTHORIZER.items():
        node.set(name, value)
    try:
        yield node.start()
        assert node.stop() == 0
    finally:
        node.discard()


def test_kafka_acls_adds_lists_and_removes(apache: Path, secured: NodeProcess) -> None:
    def acls(*words: str) -> str:
        return kafka_class(ACL_COMMAND, "--bootstrap-server", secured.bootstrap, *words)

    added = acls(
        "--add", "--allow-principal", "User:alice", "--deny-principal", "User:bob", "--deny-host", "10.0.0.1",
        "--operation", "Read", "--operation", "Write", "--topic", "orders",
    )  # fmt: skip
    assert "Adding ACLs for resource `ResourcePattern(resourceType=TOPIC, name=orders" in added
    acls("--add", "--allow-principal", "User:alice", "--consumer", "--topic", "orders", "--group", "g")
    acls(
        "--add", "--allow-principal", "User:eve", "--producer", "--topic", "team-",
        "--resource-pattern-type", "prefixed", "--transactional-id", "team-",
    )  # fmt: skip
    listed = acls("--list")
    for words in (
        "(principal=User:alice, host=*, operation=READ, permissionType=ALLOW)",
        "(principal=User:bob, host=10.0.0.1, operation=WRITE, permissionType=DENY)",
        "resourceType=GROUP, name=g, patternType=LITERAL",
        "resourceType=TOPIC, name=team-, patternType=PREFIXED",
        "resourceType=TRANSACTIONAL_ID, name=team-, patternType=PREFIXED",
        "(principal=User:eve, host=*, operation=CREATE, permissionType=ALLOW)",
    ):
        assert words in listed
    concerning = acls("--list", "--topic", "team-red", "--resource-pattern-type", "match")
    assert "name=team-" in concerning and "orders" not in concerning
    acls("--remove", "--force", "--topic", "orders")
    acls("--remove", "--force", "--group", "g")
    left = acls("--list")
    assert "orders" not in left and "name=team-" in left
    secured.stop()
    secured.start()
    assert sorted(acls("--list").splitlines()) == sorted(left.splitlines())  # (the tool has no order)


def test_kafka_acls_hears_why_an_acl_is_refused(apache: Path, secured: NodeProcess) -> None:
    code, said = run_kafka_class(
        ACL_COMMAND, "--bootstrap-server", secured.bootstrap, "--add", "--allow-principal", "alice",
        "--operation", "Read", "--topic", "t",
    )  # fmt: skip
    assert code != 0 and "alice" in said


def test_without_an_authorizer_the_tool_hears_that_security_is_disabled(
    apache: Path, one_node: NodeProcess
) -> None:
    _, said = run_kafka_class(ACL_COMMAND, "--bootstrap-server", one_node.bootstrap, "--list")
    assert "SecurityDisabledException" in said
