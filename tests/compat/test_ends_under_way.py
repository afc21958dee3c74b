"""What Apache Kafka answers about a transaction whose end is decided and whose markers cannot be written.

Its broker writes markers over its inter-broker listener, to itself too.  Here that listener is behind a gate,
which is shut.  `tests/broker/test_txn_like_apache.py` holds our coordinator to the same answers.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.broker.txn_held_cases import record
from tests.compat.conftest import NodeProcess, free_port
from tests.compat.gate import Gate
from tests.compat.test_compaction import SETTINGS, apache_kafka_on

pytestmark = pytest.mark.compat

ANSWERS = Path(__file__).parents[1] / "broker" / "txn_held_answers.json"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_apache_kafka_answers_as_recorded_while_markers_are_on_their_way(
    apache: Path, tmp_path: Path
) -> None:
    inside = free_port()
    gate = Gate(inside)
    node = NodeProcess(tmp_path / "node", **SETTINGS)
    client = f"PLAINTEXT://127.0.0.1:{node.port}"
    controller = f"CONTROLLER://127.0.0.1:{node.controller_port}"
    node.set("listeners", f"{client},INSIDE://127.0.0.1:{inside},{controller}")
    node.set("advertised.listeners", f"{client},INSIDE://127.0.0.1:{gate.port},{controller}")
    protocols = ",".join(f"{name}:PLAINTEXT" for name in ("CONTROLLER", "INSIDE", "PLAINTEXT"))
    node.set("listener.security.protocol.map", protocols)
    node.set("inter.broker.listener.name", "INSIDE")
    try:
        node.format()
        with apache_kafka_on(node, apache):
            answers = record(node.bootstrap, gate.shut)
            gate.open()
    finally:
        gate.close()
        node.discard()
    if os.environ.get("BARNABAS_REWRITE"):
        ANSWERS.write_text(json.dumps(answers, indent=1) + "\n")
    assert answers == json.loads(ANSWERS.read_text())
