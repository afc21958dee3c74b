"""The controllers' image with 100,000 partitions: made, replayed, written as a snapshot and read."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from tests.patience import PATIENCE_S

TOPICS, EACH = 100, 1000
KIB_PER_PARTITION = 0.8
"""Memory of one in the image (measured: 0.4)."""
CPU_US_PER_PARTITION = 120
"""What any of these steps takes for one (measured: 2 to 29)."""


@pytest.mark.slow
def test_an_image_of_100000_partitions_is_replayed_written_and_read_in_bounds() -> None:
    words = [sys.executable, "-m", "tests.controller.large_image", str(TOPICS), str(EACH)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=4 * PATIENCE_S)
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["partitions"] == TOPICS * EACH
    assert found["same_replayed"] and found["same_loaded"]
    for step in ("create", "replay", "write", "read", "load"):
        assert found[f"{step}_cpu_s"] * 1e6 <= CPU_US_PER_PARTITION * TOPICS * EACH, (step, found)
    for step in ("replay", "load"):
        assert found[f"{step}_mb"] * 1e6 <= KIB_PER_PARTITION * 1024 * TOPICS * EACH, (step, found)
    assert found["copy_cpu_s"] < 0.1 and found["copy_mb"] < 10, "its parts are shared"
    assert found["heartbeat_cpu_s"] < 0.05 and found["one_more_cpu_s"] < 0.05, "what all of it does not cost"
    assert found["snapshot_mb"] < 0.2 * TOPICS * EACH / 1000, found
