"""What is measured: each cell runs once against one peer and returns its figures."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.peers import Peer
from bench.processes import resident_mb

Figures = dict[str, float]

SIZES = {"1 KiB": (1024, 900), "16 KiB": (16384, 1000), "128 KiB": (131072, 1000), "1 MB": (1_000_000, 1000)}

FETCHES_TO_WARM = 4
PASSES, PASSES_OF_SMALL_ANSWERS = 10, 2
"""How often one run reads its topic: once takes a tenth of a CPU second, which is counted in hundredths; with one
batch in an answer, a second and more."""


@dataclass(frozen=True)
class Cell:
    """One row of the table: `key` is the figure that is compared (lower is better), `unit` its unit."""

    name: str
    key: str
    unit: str
    run: Callable[[Peer], Figures]
    also: tuple[str, ...] = ()


def build_load_client(folder: Path) -> Path:
    """Compile the load client (C, one file); raises SystemExit where no compiler is."""
    target = folder / "rawbench"
    source = Path(__file__).parent / "rawbench.c"
    try:
        subprocess.run(
            ["gcc", "-O2", "-msse4.2", "-w", "-o", str(target), str(source), "-ldl", "-lm"], check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(f"error: the load client needs gcc on an x86-64 machine: {error}") from error
    return target


class Load:
    """Runs the load client and reads its last line."""

    def __init__(self, client: Path) -> None:
        self.client = client
        self.topics = 0

    def topic(self) -> str:
        self.topics += 1
        return f"bench-{self.topics}"

    def __call__(self, peer: Peer, mode: str, *arguments: str, topic: str) -> Figures:
        pids = [peer.pid] if mode != "firstack" else []
        return self.on(peer.bootstrap, pids, mode, *arguments, topic=topic)

    def on(self, bootstrap: str, pids: list[int], mode: str, *arguments: str, topic: str) -> Figures:
        """Run against any brokers; CPU is counted of all of `pids`."""
        command = [str(self.client), mode, "--bootstrap", bootstrap, "--topic", topic, *arguments]
        run = subprocess.run(
            [*command, "--pid", ",".join(map(str, pids))] if pids else command,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        line = next((line for line in reversed(run.stdout.splitlines()) if line.startswith("JSON ")), None)
        if run.returncode or line is None:
            raise SystemExit(
                f"the load client failed against {bootstrap}: {run.stdout[-500:]}{run.stderr[-500:]}"
            )
        return {name: value for name, value in json.loads(line[5:]).items() if isinstance(value, int | float)}

    def delete(self, bootstrap: str, topic: str) -> None:
        subprocess.run(
            [str(self.client), "delete", "--bootstrap", bootstrap, "--topic", topic],
            capture_output=True,
            check=False,
            timeout=60,
        )


def produce(load: Load, size: str, codec: str, seconds: float, *, conns: int = 1, inflight: int = 5) -> Cell:
    batch, record = SIZES[size]
    per_request = size == "1 KiB"

    def run(peer: Peer) -> Figures:
        topic = load.topic()
        figures = load(
            peer,
            "produce",
            *("--create", "--partitions", "2", "--batch", str(batch), "--record", str(record)),
            *("--codec", codec, "--conns", str(conns), "--inflight", str(inflight)),
            *("--secs", f"{seconds}", "--warmup", "1"),
            topic=topic,
        )
        load.delete(peer.bootstrap, topic)
        return figures

    key, unit = ("cpu_s_per_kreq", "CPU ms/request") if per_request else ("cpu_s_per_GB", "CPU s/GB")
    name = f"produce {size} {codec}" + (f", {conns} connections" if conns > 1 else "")
    return Cell(name, key, unit, run, ("MBps", "req_s", "p50_ms", "p99_ms"))


def fetch(load: Load, size: str, megabytes: int, *, at_most: int = 0) -> Cell:
    """Read a topic with batches of that size; a request returns 1 MB, or `at_most` bytes."""
    batch, record = SIZES[size]
    topics: dict[str, str] = {}
    limit = ("--passes", f"{PASSES_OF_SMALL_ANSWERS if at_most else PASSES}")
    if at_most:
        limit += ("--max-partition-bytes", str(at_most))

    def run(peer: Peer) -> Figures:
        if peer.name not in topics:
            topics[peer.name] = load.topic()
            load(
                peer,
                "produce",
                *("--create", "--partitions", "1", "--batch", str(batch), "--record", str(record)),
                *("--codec", "none", "--conns", "1", "--bytes", str(megabytes * 1_000_000)),
                topic=topics[peer.name],
            )
            for _ in range(FETCHES_TO_WARM):  # the page cache, and a virtual machine's compiler
                load(peer, "fetch", *limit, topic=topics[peer.name])
        return load(peer, "fetch", *limit, topic=topics[peer.name])

    name = f"fetch {size}" + (", one batch a request" if at_most else "")
    return Cell(name, "cpu_s_per_GB", "CPU s/GB", run, ("MBps", "p50_ms"))


def latency(load: Load, seconds: float) -> Cell:
    def run(peer: Peer) -> Figures:
        topic = load.topic()
        figures = load(peer, "latency", "--create", "--secs", f"{seconds}", topic=topic)
        load.delete(peer.bootstrap, topic)
        return figures

    return Cell("one record, one in flight", "p50_ms", "p50 ms", run, ("p99_ms", "cpu_s_per_kreq"))


def start_to_first_ack(load: Load) -> Cell:
    def run(peer: Peer) -> Figures:
        peer.wipe()
        peer.format()
        peer.start()
        topic = load.topic()
        figures = load(peer, "firstack", "--t0", f"{peer.started_at:.6f}", topic=topic)
        figures["idle_MB"] = resident_mb(peer.pid)
        return figures

    return Cell("start to first ack", "acked", "s", run, ("tcp", "idle_MB"))


def librdkafka(mode: str, key: str, unit: str, name: str, *also: str) -> Cell:
    def run(peer: Peer) -> Figures:
        command = [sys.executable, "-m", "bench.clients", mode, peer.bootstrap, str(peer.pid)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        if done.returncode:
            raise SystemExit(f"librdkafka {mode} failed against {peer.name}: {done.stderr[-800:]}")
        figures: Figures = json.loads(done.stdout.splitlines()[-1])
        return figures

    return Cell(name, key, unit, run, also)


def memory_loaded() -> Cell:
    return Cell("memory after the load", "MB", "MB", lambda peer: {"MB": resident_mb(peer.pid)})
