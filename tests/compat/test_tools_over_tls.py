"""Apache Kafka's own tools administer a node of `barnabas start --secure` by the file that it made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.test_start_secure import secure
from tests.compat.conftest import kafka_class
from tools.peer import CONFIGS

pytestmark = pytest.mark.compat

Tool = Callable[..., str]
ACLS, TOPICS = "org.apache.kafka.tools.AclCommand", "TopicCommand"


def test_users_quotas_acls_topics_and_settings(apache: Path, tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    with secure(tmp_path / "home", "--port", "0") as node:
        login = ("--bootstrap-server", node.address, "--command-config", str(node.home / "admin.properties"))

        def tool(name: str, *words: str) -> str:
            return kafka_class(name if "." in name else f"org.apache.kafka.tools.{name}", *login, *words)

        users_are_made_and_deleted(tool)
        quotas_are_set_and_shown(tool)
        tool(TOPICS, "--create", "--topic", "orders", "--partitions", "2")
        assert "PartitionCount: 2" in tool(TOPICS, "--describe", "--topic", "orders")
        tool(ACLS, "--add", "--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders")
        assert "(principal=User:alice, host=*, operation=READ, permissionType=ALLOW)" in tool(ACLS, "--list")
        at_broker = ("--entity-type", "brokers", "--entity-name", "1")
        assert "ssl.keystore.location" in tool(CONFIGS, "--describe", "--all", *at_broker)


def users_are_made_and_deleted(tool: Tool) -> None:
    alice = ("--entity-type", "users", "--entity-name", "alice")
    tool(CONFIGS, "--alter", *alice, "--add-config", "SCRAM-SHA-512=[iterations=8192,password=a-secret]")
    assert "SCRAM-SHA-512=iterations=8192" in tool(CONFIGS, "--describe", *alice)
    tool(CONFIGS, "--alter", *alice, "--delete-config", "SCRAM-SHA-512")
    assert "SCRAM" not in tool(CONFIGS, "--describe", *alice)


def quotas_are_set_and_shown(tool: Tool) -> None:
    for entity, quota in (
        (("--entity-type", "users", "--entity-name", "alice"), "producer_byte_rate=1048576.0"),
        (("--entity-type", "users", "--entity-default"), "consumer_byte_rate=2097152.0"),
        (("--entity-type", "clients", "--entity-name", "etl"), "request_percentage=50.0"),
        (("--entity-type", "ips", "--entity-name", "10.0.0.9"), "connection_creation_rate=20.0"),
    ):
        tool(CONFIGS, "--alter", *entity, "--add-config", quota)
        assert quota in tool(CONFIGS, "--describe", *entity), entity
        tool(CONFIGS, "--alter", *entity, "--delete-config", quota.partition("=")[0])
        assert quota not in tool(CONFIGS, "--describe", *entity), entity
