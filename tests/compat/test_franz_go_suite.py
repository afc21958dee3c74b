"""franz-go's own tests of consumers, producers, admin and groups against our node.  Needs Go."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.compat.conftest import NodeProcess

pytestmark = [
    pytest.mark.compat,
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("go"), reason="franz-go's suite needs Go"),
]

SCRIPT = Path(__file__).parent / "franz-go-suite.sh"


def test_franz_gos_own_suite_passes(one_node: NodeProcess, capsys: pytest.CaptureFixture[str]) -> None:
    run = subprocess.run(
        [SCRIPT, one_node.bootstrap], capture_output=True, text=True, timeout=900, check=False
    )
    if run.returncode == 2:
        pytest.skip("franz-go's suite could not be fetched or built: " + run.stderr[-300:])
    counts = re.fullmatch(r"PASSED (\d+) FAILED (\d+) SKIPPED (\d+)", run.stdout.splitlines()[-1])
    assert counts, run.stdout + run.stderr
    with capsys.disabled():
        print(f"\nfranz-go's own suite: {counts[0].lower()}")
    assert counts[2] == "0", run.stdout
    assert int(counts[1]) >= 40
    skipped = set(re.findall(r"--- SKIP: (\S+)", run.stdout))
    assert all("848" in name for name in skipped), "only the new group protocol is left out"
