"""The examples run as they stand, and are as short as promised."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.patience import LATE_STARTS

from barnabas.pipeline.late_workers import LATE
from barnabas.testing import Cluster


@pytest.fixture(scope="module")
def kafka() -> Iterator[Cluster]:
    """A node for this module alone: its topics have the names that are printed."""
    with Cluster() as cluster:
        yield cluster


SECONDS = 1200
"""An example that takes longer hangs, on any machine."""
EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, kafka: Cluster) -> str:
    """What the example prints."""
    done = attempt(name, kafka)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def attempt(name: str, kafka: Cluster) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLES / name), kafka.bootstrap]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)


def run_on_spark(name: str) -> str:
    """What the example prints on a fresh node; on another one if Spark gave up on a late Python worker."""
    for _ in range(LATE_STARTS):
        with Cluster() as fresh:
            done = attempt(name, fresh)
        if done.returncode == 0 or LATE not in done.stderr:
            break
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_there_are_five_of_at_most_forty_lines() -> None:
    lengths = {path.name: len(path.read_text().splitlines()) for path in EXAMPLES.glob("*.py")}
    assert len(lengths) == 5
    assert max(lengths.values()) <= 40


def test_produce_and_consume(kafka: Cluster) -> None:
    out = run("produce_and_consume.py", kafka).splitlines()
    assert out[0] == "the last one is at offset 10 of greetings-0"
    assert out[1] == "  0  key 0  hello 0"
    assert len(out) == 12


def test_administer(kafka: Cluster) -> None:
    out = run("administer.py", kafka)
    assert "made orders with 3 partitions" in out
    assert "  retention.ms = 3600000\n  segment.bytes = 1048576\n" in out
    assert out.endswith("deleted orders\n")


def test_share_in_a_group(kafka: Cluster) -> None:
    assert run("share_in_a_group.py", kafka) == "20 jobs done\nlag of the group: 0\n"


@pytest.mark.spark
@pytest.mark.timeout(3 * SECONDS)
def test_spark_batch() -> None:
    pytest.importorskip("pyspark")
    assert run_on_spark("spark_batch.py").splitlines()[0] == "  2  the"


@pytest.mark.spark
@pytest.mark.timeout(3 * SECONDS)
def test_spark_stream() -> None:
    pytest.importorskip("pyspark")
    expected = {f"sensor {s}": sum(n % 7 for n in range(1000) if n % 3 == s) for s in range(3)}
    out = run_on_spark("spark_stream.py")
    for sensor, total in expected.items():
        assert f"{sensor}|" in out.replace(" |", "|")
        assert str(total) in out
