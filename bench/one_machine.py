"""`python -m bench nodes`: what `barnabas start --nodes N` carries beside one node, on the same machine.

  produce   16 KiB a request, five in flight on a connection for each node, acks=all, one replica
  fetch     the same records again, a connection for each node

Clients need cores, too, so a machine of two cores cannot show what two nodes carry by the clock.  What is
compared is what the nodes carry where each has a core of its own: requests (or bytes) for each CPU second of a
node, times the number of nodes.  The clock's figure and the cores that the client took stand beside it.
The least CPU of the rounds counts, both sides in turn, and no memory is fresh from the host (`page_cache`).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from barnabas.testing.cluster import free_ports
from bench.cells import Figures, Load, build_load_client
from bench.page_cache import PageCache
from bench.peers import PAGE_CACHE
from bench.processes import load, machine
from bench.report import put_between, sides_table

__all__ = ["main"]

BEGIN = "<!-- begin: written by make bench ARGS=nodes -->"
END = "<!-- end: written by make bench ARGS=nodes -->"
BATCH, RECORD = 16384, 1000
PARTITIONS = 4
ROWS = {
    "produce_us": "produce 16 KiB: CPU us of the nodes, a request",
    "produce_carries": "requests/s that the nodes carry with a core each",
    "produce_ratio": "the same over one node's",
    "produce_s": "requests/s by the clock, client on the same cores",
    "produce_client": "cores that the client took",
    "fetch_us": "fetch: CPU us of the nodes, a MB",
    "fetch_carries": "MB/s that the nodes carry with a core each",
    "fetch_ratio": "the same over one node's",
    "fetch_s": "MB/s by the clock, client on the same cores",
}


class Nodes:
    """`barnabas start --nodes N` in a directory of its own."""

    def __init__(self, count: int, folder: Path) -> None:
        self.count = count
        # A node has up to two ports, and the next one's come behind them
        self.port = free_ports(2 * count)
        settings = {
            "log.flush.interval.messages": PAGE_CACHE,
            "log.segment.delete.delay.ms": "0",
            "max.connections.per.ip": "100000",
        }
        words = [sys.executable, "-m", "barnabas", "start", "--nodes", f"{count}", "--port", f"{self.port}"]
        words += ["--data", f"{folder / 'data'}", "--json"]
        for name, value in settings.items():
            words += ["--override", f"{name}={value}"]
        self._log = (folder / "log").open("wb")
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=self._log, cwd=folder)
        assert self._process.stdout is not None
        ready = json.loads(self._process.stdout.readline() or b"{}")
        if "nodes" not in ready:
            raise SystemExit(f"{count} nodes did not start: {(folder / 'log').read_text()[-500:]}")
        self.pids: list[int] = [node["pid"] for node in ready["nodes"]]

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(60)
        self._log.close()


def measure(nodes: Nodes, client: Load, seconds: float) -> Figures:
    """One round."""
    topic = client.topic()
    spread = ("--conns", f"{nodes.count}")
    sent = client.on(
        nodes.bootstrap,
        nodes.pids,
        "produce",
        *("--create", "--partitions", f"{PARTITIONS}", "--batch", f"{BATCH}", "--record", f"{RECORD}"),
        *("--codec", "none", "--inflight", "5", "--secs", f"{seconds}", "--warmup", "1", *spread),
        topic=topic,
    )
    client.on(nodes.bootstrap, nodes.pids, "fetch", *spread, topic=topic)  # warms connections and pages
    read = client.on(nodes.bootstrap, nodes.pids, "fetch", *spread, topic=topic)
    client.delete(nodes.bootstrap, topic)
    return {
        "produce_us": sent["cpu_s_per_kreq"] * 1e3,
        "produce_s": sent["req_s"],
        "produce_client": sent["client_cpu_s"] / sent["secs"],
        "fetch_us": read["cpu_s_per_GB"] * 1e3,
        "fetch_s": read["MBps"],
    }


def least(rounds: Sequence[Figures], count: int) -> Figures:
    """The round that cost the nodes least, for either kind of work, and what they carry by it."""
    sent = min(rounds, key=lambda one: one["produce_us"])
    read = min(rounds, key=lambda one: one["fetch_us"])
    return {
        **{name: sent[name] for name in ("produce_us", "produce_s", "produce_client")},
        **{name: read[name] for name in ("fetch_us", "fetch_s")},
        "produce_carries": count * 1e6 / sent["produce_us"],
        "fetch_carries": count * 1e6 / read["fetch_us"],
    }


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench nodes", description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=2, help="how many beside one (2)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds, both sides in turn (5)")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a produce run (3)")
    parser.add_argument("--no-write", action="store_true", help="print the table, leave docs/ as it is")
    options = parser.parse_args(words)
    before = load()
    print(f"{machine()}; load {before:.1f}", flush=True)
    sides: dict[int, list[Figures]] = {1: [], options.nodes: []}
    with (
        tempfile.TemporaryDirectory(prefix="bench-nodes-") as name,
        PageCache(Path(name), used=True) as pages,
    ):
        folder = Path(name)
        client = Load(build_load_client(folder))
        for number in range(options.rounds):
            for count, rounds in sides.items():
                place = folder / f"{number}-{count}"
                place.mkdir()
                pages.fill()
                nodes = Nodes(count, place)
                try:
                    rounds.append(measure(nodes, client, options.seconds))
                finally:
                    nodes.stop()
                print(f"round {number + 1}, {count} nodes: {rounds[-1]}", flush=True)
    found = {f"{count} node{'s' * (count > 1)}": least(rounds, count) for count, rounds in sides.items()}
    one, several = found.values()
    for kind in ("produce", "fetch"):
        several[f"{kind}_ratio"] = several[f"{kind}_carries"] / one[f"{kind}_carries"]
    said = f"the least of {options.rounds} rounds, both sides in turn, acknowledgements from the page cache."
    text = sides_table(found, ROWS, said, before)
    print(text)
    if not options.no_write:
        print(f"written: {put_between(BEGIN, END, text)}")
    return 0
