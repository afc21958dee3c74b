"""kafka-python's own integration suite against our node: what fails is known, and why is written down.

The reasons stand in docs/compatibility.md.  A name that fails and is not here is a regression; a name here
that passes is to be taken out.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.compat.conftest import NodeProcess

pytestmark = [pytest.mark.compat, pytest.mark.slow]

SCRIPT = Path(__file__).parent / "kafka-python-suite.sh"
KNOWN = {
    "test_create_describe_delete_acls",
    "test_ssl_handshake",
    "test_legacy_kafka_client_ssl",
}


@pytest.fixture
def node_0(tmp_path: Path) -> Iterator[NodeProcess]:
    """A node as the suite wants its broker."""
    settings = {"node.id": "0", "num.partitions": "4", "group.min.session.timeout.ms": "100"}
    node = NodeProcess(tmp_path / "node", **settings)
    node.set("advertised.listeners", f"PLAINTEXT://{node.bootstrap}")
    node.start()
    yield node
    assert node.stop() == 0, node.log.read_text()


def test_what_fails_of_kafka_pythons_own_suite_is_known(
    node_0: NodeProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    run = subprocess.run([SCRIPT, node_0.bootstrap], capture_output=True, text=True, timeout=900, check=False)
    failed = set(re.findall(r"^(?:FAILED|ERROR) \S+::(\w+)", run.stdout, re.MULTILINE))
    counts = re.fullmatch(r"PASSED (\d+) FAILED (\d+) SKIPPED (\d+)", run.stdout.splitlines()[-1])
    assert counts, run.stdout + run.stderr
    if counts[1] == "0":
        pytest.skip("kafka-python's suite could not be fetched: " + (run.stderr or run.stdout)[-300:])
    with capsys.disabled():
        print(f"\nkafka-python's own suite: {counts[0].lower()}")
    assert failed == KNOWN, run.stdout
    assert int(counts[1]) >= 50
