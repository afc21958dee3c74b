"""kcat, librdkafka's command line, where it is installed."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
from tests.compat.conftest import NodeProcess

pytestmark = [
    pytest.mark.compat,
    pytest.mark.skipif(not shutil.which("kcat"), reason="kcat is not installed (a package of that name)"),
]

LINES = [str(number) for number in range(10_000)]


def kcat(node: NodeProcess, *arguments: str, stdin: str | None = None) -> str:
    run = subprocess.run(
        ["kcat", "-b", node.bootstrap, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_lines_pass_assigned_and_subscribed(node: NodeProcess) -> None:
    node.barnabas("topics", "create", "lines", "--partitions", "3", "--bootstrap-server", node.bootstrap)
    safe = ("-z", "lz4", "-X", "enable.idempotence=true", "-K", ":")
    kcat(node, "-P", "-t", "lines", *safe, stdin="".join(f"{line}:{line}\n" for line in LINES))
    assigned = kcat(node, "-C", "-t", "lines", "-o", "beginning", "-e", "-q").split()
    assert sorted(assigned) == sorted(LINES)
    start = ("-X", "auto.offset.reset=earliest", "-e", "-q")
    assert sorted(kcat(node, "-G", "readers", *start, "lines").split()) == sorted(LINES)


def test_the_cluster_is_listed_and_offsets_are_found_by_time(one_node: NodeProcess) -> None:
    kcat(one_node, "-P", "-t", "made", stdin="a\nb\nc\n")
    listed = json.loads(kcat(one_node, "-L", "-J", "-t", "made"))
    assert listed["brokers"] == [{"id": 1, "name": one_node.bootstrap}]
    assert listed["topics"][0]["partitions"][0]["leader"] == 1
    assert kcat(one_node, "-Q", "-t", "made:0:-1").strip() == "made [0] offset 3"
    assert kcat(one_node, "-Q", "-t", "made:0:1").strip() == "made [0] offset 0"
