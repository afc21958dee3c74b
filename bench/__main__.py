"""`make bench`: Barnabas and Apache Kafka in turn, same client, same bytes; writes docs/performance.md.

Rounds are interleaved (a round of one, a round of the other), both sides are warmed first, and the least of
each side counts: on a machine that others use too, the least disturbed round says most.  CPU seconds before
wall time.  `--old COMMIT` compares with Barnabas at that commit, and writes nothing.

`python -m bench gap` and `... rf3` (make bench ARGS=gap) measure clusters of three: see `bench/gap.py` and
`bench/replicated.py`.  `python -m bench coordinators` (`bench/coordinators.py`): groups and transactional ids.
`python -m bench partitions` (`bench/partitions.py`): ten thousand partitions on one node.
`python -m bench tls` (`bench/tls.py`): TLS, logins and many ACLs.
`python -m bench nodes` (`bench/one_machine.py`): several nodes on the cores of one machine.
`python -m bench turns` (`bench/turns.py`): how long the event loop is held.
`python -m bench isr` (`bench/in_sync.py`): whether an in-sync set ever shrinks although nobody has failed.
`python -m bench beside` (`bench/beside.py`): one record beside topics, compaction and snapshots.
`python -m bench firsts --old COMMIT` (`bench/firsts.py`): a cluster's first group, rest, an older commit.
`python -m bench spark` (`bench/spark.py`): PySpark's source and sink beside Spark's own connector.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

from bench import cells
from bench.cells import Cell, Load
from bench.earlier import Earlier, checkout
from bench.page_cache import PageCache
from bench.peers import ApacheKafka, Barnabas, Peer, apache_is_here
from bench.processes import end_when_told, stopped
from bench.processes import load as machine_load
from bench.report import Row, add_earlier, write
from bench.warmth import run_until_still

BUSY = 1.5
MODES = ("page cache", "fsync")
WARM_JVM_SECONDS = 25.0
OWN_PAGES = {
    "beside": "beside",
    "coordinators": "coordinators",
    "firsts": "firsts",
    "gap": "gap",
    "hang": "hang",
    "isr": "in_sync",
    "nodes": "one_machine",
    "partitions": "partitions",
    "rf3": "replicated",
    "spark": "spark",
    "tls": "tls",
    "turns": "turns",
}
"""What else is measured, by the first word, and where."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each side (5)")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of one produce run (3)")
    parser.add_argument("--only", default="", help="only cells whose name contains this")
    parser.add_argument("--modes", default=",".join(MODES), help="durability modes, separated by commas")
    parser.add_argument("--alone", action="store_true", help="do not run Apache Kafka")
    parser.add_argument("--old", metavar="COMMIT", help="Barnabas at this commit in Apache Kafka's place")
    parser.add_argument("--force", action="store_true", help="measure on a busy machine all the same")
    parser.add_argument(
        "--add", action="store_true", help="add these rounds to those in docs/performance.json"
    )
    parser.add_argument("--no-write", action="store_true", help="print the table, leave docs/ as it is")
    return parser.parse_args()


def plan(load: Load, mode: str, seconds: float) -> list[Cell]:
    """The cells of one durability mode, in the order they run."""
    if mode == "fsync":
        return [
            *(cells.produce(load, size, "none", seconds) for size in cells.SIZES),
            cells.produce(load, "16 KiB", "none", seconds, conns=50, inflight=1),
            cells.latency(load, seconds),
            cells.librdkafka(
                "e2e", "p99_ms", "p99 ms", "librdkafka end to end, 500/s", "p50_ms", "p999_ms", "cores"
            ),
        ]
    return [
        cells.start_to_first_ack(load),
        *(cells.produce(load, size, codec, seconds) for codec in ("none", "lz4") for size in cells.SIZES),
        cells.produce(load, "16 KiB", "none", seconds, conns=50, inflight=1),
        cells.fetch(load, "16 KiB", 100, at_most=16384),
        cells.fetch(load, "16 KiB", 400),
        cells.fetch(load, "1 MB", 400),
        cells.latency(load, seconds),
        cells.librdkafka(
            *("throughput", "cpu_s_per_GB", "CPU s/GB", "librdkafka produce and consume 1 kB"),
            *("produce_MBps", "consume_MBps", "produce_cpu_s_per_GB", "consume_cpu_s_per_GB"),
        ),
        cells.librdkafka(
            "e2e", "p99_ms", "p99 ms", "librdkafka end to end, 500/s", "p50_ms", "p999_ms", "cores"
        ),
        cells.memory_loaded(),
    ]


def warm(peer: Peer, load: Load) -> None:
    """Load a side for a while (a JVM needs 25 s to begin with)."""
    seconds = WARM_JVM_SECONDS if isinstance(peer, ApacheKafka) else 3.0
    for cell in (cells.produce(load, "16 KiB", "none", seconds / 2), cells.latency(load, seconds / 2)):
        cell.run(peer)


def run_mode(
    mode: str,
    options: argparse.Namespace,
    load: Load,
    folder: Path,
    ports: itertools.count[int],
    pages: PageCache,
) -> list[Row]:
    """All cells of a mode, every round on both sides in turn."""
    kinds: list[type[Peer]] = [
        Barnabas,
        *([Earlier] if options.old else [] if options.alone else [ApacheKafka]),
    ]
    peers = [
        kind(folder / f"{kind.__name__}-{mode[:4]}", next(ports), fsync=mode == "fsync") for kind in kinds
    ]
    rows = [Row(cell, mode) for cell in plan(load, mode, options.seconds) if options.only in cell.name]
    try:
        starts = [row for row in rows if row.cell.name == "start to first ack"]
        for row in starts:
            measure(row, peers, options.rounds, pages)
        for peer in peers:
            if peer.process is None:
                peer.start()
                peer.wait()
            warm(peer, load)
        for row in rows:
            if row not in starts:
                measure(row, peers, options.rounds, pages)
    finally:
        for peer in peers:
            peer.stop()
    return rows


def measure(row: Row, peers: list[Peer], rounds: int, pages: PageCache) -> None:
    if row.cell.unit.startswith("CPU"):
        for peer in peers:
            if isinstance(peer, ApacheKafka):
                run_until_still(lambda: row.cell.run(peer)[row.cell.key])  # noqa: B023  # called at once
    for _ in range(rounds):
        for peer in peers:
            pages.fill()
            with stopped(other.pid for other in peers if other is not peer and other.process is not None):
                row.rounds.setdefault(peer.name, []).append(row.cell.run(peer))
            if row.cell.name == "start to first ack" and peer is not peers[-1]:
                peer.stop()
        if row.cell.name == "start to first ack":
            for peer in peers:
                peer.stop()
    shown = "  ".join(
        f"{peer.name} {best[row.cell.key]:.4g}" for peer in peers if (best := row.best(peer.name)) is not None
    )
    ratio = row.ratio(*(peer.name for peer in peers[:2]))
    print(
        f"{row.mode:<10} {row.cell.name:<36} {row.cell.unit:<14} {shown}"
        + (f"  ratio {ratio:.2f}" if ratio is not None else ""),
        flush=True,
    )


def main() -> int:
    end_when_told()
    if (own := OWN_PAGES.get("".join(sys.argv[1:2]))) is not None:
        return int(import_module(f"bench.{own}").main(sys.argv[2:]))
    options = arguments()
    load_before = machine_load()
    if load_before > BUSY and not options.force:
        print(f"error: the load of this machine is {load_before:.1f}; figures would not mean much")
        print(f"  next: wait until it is below {BUSY}, or say --force (make bench ARGS=--force)")
        return 2
    why_alone = "as asked" if options.alone or options.old else apache_is_here()
    if why_alone is not None and not options.old:
        print(f"measuring alone: {why_alone}")
        options.alone = True
    ports = itertools.count(29092, 10)
    with (
        tempfile.TemporaryDirectory(prefix="barnabas-bench-") as name,
        PageCache(Path(name), used=not options.alone) as pages,
        checkout(options.old),
    ):
        folder = Path(name)
        load = Load(cells.build_load_client(folder))
        began = time.monotonic()
        rows = [
            row
            for mode in options.modes.split(",")
            for row in run_mode(mode, options, load, folder, ports, pages)
        ]
        if options.add:
            every = [Row(cell, mode) for mode in MODES for cell in plan(load, mode, options.seconds)]
            rows = add_earlier(every, rows)
    print(f"{len(rows)} rows in {time.monotonic() - began:.0f} s")
    if not options.no_write and not options.old:
        rounds = min(len(found) for row in rows for found in row.rounds.values())
        print(f"written: {write(rows, rounds=rounds, load=load_before, why_alone=why_alone)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
