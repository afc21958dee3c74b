"""Two-phase commit (KIP-939): what Apache Kafka's producer makes of its own setting, with Kafka and with us."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.compat.conftest import NodeProcess, kafka_class
from tests.compat.side_by_side.pair import SETTINGS
from tests.compat.test_compaction import apache_kafka_on
from tests.compat.test_transactions import TOOL, committed

from barnabas.client.blocking import BlockingConnection
from barnabas.wire.schemas.transactions import InitProducerIdRequest

pytestmark = pytest.mark.compat

ON = {"unstable_api_versions_enable": "true", "transaction_two_phase_commit_enable": "true"}
FOR_EVER = str(2**31 - 1)


@contextmanager
def node_of(whose: str, apache: Path, folder: Path) -> Iterator[NodeProcess]:
    """A node with a topic t, ours or Apache Kafka's."""
    node = NodeProcess(folder, **{**SETTINGS, **ON})
    try:
        node.start().barnabas("topics", "create", "t", "--bootstrap-server", node.bootstrap)
        if whose == "ours":
            yield node
        assert node.stop() == 0, node.log.read_text()
        if whose != "ours":
            with apache_kafka_on(node, apache):
                yield node
    finally:
        node.discard()


def described(node: NodeProcess, id: str) -> list[str]:
    """State and timeout of a transactional id, as Kafka's tool prints them."""
    to = ("--bootstrap-server", node.bootstrap)
    return kafka_class(TOOL, *to, "describe", "--transactional-id", id).splitlines()[-1].split()[4:6]


@pytest.mark.parametrize("whose", ["ours", "Apache Kafka's"])
def test_apaches_producer_does_not_ask_for_two_phases(apache: Path, tmp_path: Path, whose: str) -> None:
    """Kafka's producer takes transaction.two.phase.commit.enable and never sends enable2Pc: its transactions
    keep their timeout.  Who sends it has none."""
    with node_of(whose, apache, tmp_path / "node") as node:
        kafka_class(
            "org.apache.kafka.tools.ProducerPerformance",
            *("--topic", "t", "--num-records", "100", "--record-size", "100", "--throughput", "1000"),
            *("--transactional-id", "java", "--transaction-duration-ms", "20"),
            *("--bootstrap-server", node.bootstrap),
            *("--command-property", "transaction.two.phase.commit.enable=true"),
        )
        assert described(node, "java") == ["CompleteCommit", "60000"]
        assert committed(node.bootstrap, "t", 1) == 100
        with BlockingConnection("127.0.0.1", node.port) as connection:
            asks = InitProducerIdRequest(
                transactional_id="wire", transaction_timeout_ms=60_000, enable2_pc=True
            )
            assert connection.request(asks, 6).error_code == 0
        assert described(node, "wire") == ["Empty", FOR_EVER]
