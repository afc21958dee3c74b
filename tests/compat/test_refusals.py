"""What this release does not serve is refused at once, in words, by every client alike: nobody waits for ever."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.compat.conftest import NodeProcess, run_kafka_class

pytestmark = pytest.mark.compat


def test_apache_kafka_is_told_where_the_new_group_protocol_is_not_in_force(
    apache: object, tmp_path: Path
) -> None:
    """KIP-848: the client names the setting that helps."""
    node = NodeProcess(tmp_path / "node", group_coordinator_rebalance_protocols="classic")
    try:
        node.start().barnabas("topics", "create", "t", "--bootstrap-server", node.bootstrap)
        _, printed = run_kafka_class(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", node.bootstrap, "--topic", "t", "--timeout-ms", "20000"),
            *("--command-property", "group.protocol=consumer"),
            timeout=60,
        )
        node.stop()
    finally:
        node.discard()
    assert "Set group.protocol=classic" in printed
