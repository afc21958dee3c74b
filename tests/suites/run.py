"""One run of one suite: its cluster, its script, and nodes that are killed meanwhile if asked."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.compat.conftest import free_port
from tests.suites.apache import OURS, cluster
from tests.suites.declared import OF_EVERY_CLUSTER, Suite
from tests.suites.kills import Kills

COUNTS = re.compile(r"PASSED (\d+) FAILED (\d+) SKIPPED (\d+)")


@dataclass(frozen=True)
class Result:
    """What one run showed; a line of docs/compatibility.json."""

    suite: str
    peer: str
    """Whose cluster it was."""
    nodes: int
    kills_every: float
    """Seconds between kill -9 of one node and the next; 0: none."""
    passed: int
    failed: int
    skipped: int
    failures: list[str]
    seconds: int
    day: str
    reasons: dict[str, str] = field(default_factory=dict)
    """Why a test failed while nodes were killed, as far as the output says."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class SuiteUnavailableError(Exception):
    """The suite could not be fetched, built or run at all; the text says what it printed."""


def run(suite: Suite, *, nodes: int, kills_every: float = 0.0, peer: str = OURS) -> Result:
    """Start a cluster as the suite wants it, of ours or of Apache Kafka, run the suite, stop the cluster."""
    settings = {**OF_EVERY_CLUSTER, **suite.settings}
    if suite.advertised:
        client = f"PLAINTEXT://127.0.0.1:{free_port()}"
        settings |= {"listeners": f"{client},CONTROLLER://127.0.0.1:0", "advertised.listeners": client}
    with (
        cluster(peer, settings, nodes=nodes, first=suite.first) as started,
        Kills(started, kills_every),
    ):
        return against(suite, started.bootstrap, nodes=nodes, peer=peer, kills_every=kills_every)


def against(
    suite: Suite, bootstrap: str, *, nodes: int, peer: str = OURS, kills_every: float = 0.0
) -> Result:
    """Run the suite against a cluster that runs already."""
    began = time.monotonic()
    with subprocess.Popen(
        [suite.script, bootstrap],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "LIMIT": str(suite.seconds), "KGO_TEST_RF": str(nodes), **suite.environment},
    ) as script:
        try:
            output, errors = script.communicate(timeout=suite.seconds + 600)
        except BaseException:
            os.killpg(script.pid, signal.SIGKILL)
            raise
    lines = output.splitlines()
    counts = COUNTS.fullmatch(lines[-1]) if lines else None
    if counts is None or counts[1] == counts[2] == "0":
        raise SuiteUnavailableError((errors or output)[-600:])
    passed, failed, skipped = map(int, counts.groups())
    return Result(
        suite=suite.name,
        peer=peer,
        nodes=nodes,
        kills_every=kills_every,
        passed=passed,
        failed=failed,
        skipped=skipped,
        failures=suite.failed(output),
        seconds=round(time.monotonic() - began),
        day=datetime.now(UTC).date().isoformat(),
        reasons=suite.reasons(output) if kills_every else {},
    )
