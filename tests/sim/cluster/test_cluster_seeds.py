"""Whole clusters by seed: every promise kept, enough happened, and the same again anywhere."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from barnabas.sim.cluster.clients.workloads import WORKLOADS, seed_runner
from barnabas.sim.cluster.seed_run import ClusterReport, run_seed
from barnabas.sim.cluster.seeds import Summary, code_hash, command, tell

pytestmark = pytest.mark.long

CHUNK = 10
FIRST = range(1, 21, CHUNK)
"""`.ci/run` goes on where these end (`make sim CLUSTER=1`)."""
AGAIN = range(1, 4)


@cache
def report_of(seed: int) -> ClusterReport:
    return run_seed(seed)


@pytest.mark.parametrize("first", FIRST)
def test_no_fault_breaks_a_promise_of_the_cluster(first: int) -> None:
    broken = [report for report in map(report_of, range(first, first + CHUNK)) if not report.ok]
    assert not broken, "\n".join(tell(run_seed(broken[0].seed, story=True)))


def test_no_disk_is_lost_while_a_second_quorum_lives() -> None:
    # 11238: broker 4 came back empty, found the wrongly formatted node 1 first, and joined a quorum of its own.
    report = run_seed(11238)
    assert report.ok, report.error
    apart = [fault for fault in report.faults if fault.name.startswith("wrong format")]
    assert apart
    for fault in report.faults:
        if fault.name == "empty disk":
            assert not any(one.time <= fault.time <= one.time + one.lasts for one in apart)


def test_the_seeds_do_what_they_are_for() -> None:
    summary = Summary()
    for seed in range(1, 21):
        summary.add(report_of(seed))
    assert summary.counts["acknowledged"] > 200 * summary.seeds
    assert summary.occurrences > 10 * summary.seeds
    assert len(summary.faults) >= 20
    assert len(summary.operations) >= 3
    assert any("every promise" in line for line in tell(report_of(1)))
    assert len(list(summary.lines())) > 20 and summary.document()["seeds"] == 20


def test_the_same_seed_of_a_cluster_goes_the_same_way_in_another_process_with_another_hash_seed() -> None:
    code = (
        "from barnabas.sim.cluster.seed_run import run_seed\n"
        f"print(*[run_seed(seed, story=True).digest for seed in range({AGAIN.start}, {AGAIN.stop})])"
    )
    source = str(Path(__file__).parents[3] / "src")
    hash_seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    printed = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert printed == [report_of(seed).digest for seed in AGAIN]


def test_the_code_of_a_cluster_has_one_fingerprint() -> None:
    assert code_hash() == code_hash()
    assert len(code_hash()) == 16


def test_every_workload_has_seeds_and_what_is_said_of_one_repeats_it() -> None:
    for name in WORKLOADS:
        assert callable(seed_runner(name))
        report = ClusterReport(7, "P1", "P1: lost", workload=name)
        assert list(tell(report))[-1] == f"again: {command(7, name)}"
    assert command(7) == "barnabas simulate --cluster --seed 7"
    assert command(7, "transactions") == "barnabas simulate --cluster --transactions --seed 7"
