"""`python -m bench rf3`: what three replicas cost: CPU of all three nodes per request and per GB.

Three combined nodes of each kind, a topic of three partitions with three replicas, min.insync.replicas 2,
acks=all, three connections with five requests each; page cache on both sides, then a sync before each answer
on both (`log.flush.interval.messages=1`, which Kafka's followers heed as well).
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from pathlib import Path

from bench.cells import SIZES, Figures, Load, build_load_client
from bench.peers import apache_is_here
from bench.processes import load, machine, resident_mb
from bench.report import number, put_between, revision
from bench.trio import ApacheTrio, BarnabasTrio, Trio

BEGIN, END = "<!-- begin: written by make bench ARGS=rf3 -->", "<!-- end: written by make bench ARGS=rf3 -->"
MODES = ("page cache", "fsync")
WARM_SECONDS = 25.0
Rounds = dict[tuple[str, str], dict[str, list[Figures]]]


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench rf3", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each side (3)")
    parser.add_argument("--seconds", type=float, default=4.0, help="length of one run (4)")
    parser.add_argument("--modes", default=",".join(MODES), help="durability modes, separated by commas")
    parser.add_argument("--alone", action="store_true", help="do not run Apache Kafka")
    parser.add_argument("--no-write", action="store_true", help="print the table, leave docs/ as it is")
    options = parser.parse_args(words)
    before, found = load(), Rounds()
    kinds: list[type[Trio]] = [BarnabasTrio]
    if not options.alone and apache_is_here() is None:
        kinds.append(ApacheTrio)
    ports = itertools.count(31092, 100)
    with tempfile.TemporaryDirectory(prefix="barnabas-rf3-") as name:
        client = Load(build_load_client(Path(name)))
        for mode in options.modes.split(","):
            trios = [
                kind(Path(name) / f"{kind.__name__}-{mode[:4]}", next(ports), fsync=mode == "fsync")
                for kind in kinds
            ]
            try:
                for trio in trios:
                    trio.start()
                    began = time.monotonic()
                    while time.monotonic() - began < (WARM_SECONDS if isinstance(trio, ApacheTrio) else 2.0):
                        produce(client, trio, "16 KiB", 5.0)
                for size in SIZES:
                    for trio in trios * options.rounds:
                        rounds = found.setdefault((mode, size), {}).setdefault(trio.name, [])
                        rounds.append(produce(client, trio, size, options.seconds))
                    show(mode, size, found)
            finally:
                for trio in trios:
                    trio.stop()
    text = table(found, [kind.name for kind in kinds], before)
    print(text)
    if not options.no_write:
        print(f"written: {put_between(BEGIN, END, text)}")
    return 0


def produce(client: Load, trio: Trio, size: str, seconds: float) -> Figures:
    """One run; CPU is that of all three nodes together."""
    batch, record = SIZES[size]
    topic = client.topic()
    nodes = list(trio.seats)
    trio.create(topic, [nodes[n:] + nodes[:n] for n in range(len(nodes))])
    figures = client.on(
        trio.bootstrap.partition(",")[0],
        trio.pids,
        "produce",
        *("--batch", str(batch), "--record", str(record), "--codec", "none", "--acks", "all"),
        *("--conns", "3", "--inflight", "5", "--secs", f"{seconds}", "--warmup", "1"),
        topic=topic,
    )
    figures["MB"] = sum(resident_mb(pid) for pid in trio.pids)
    trio.admin.delete_topics([topic])[topic].result(30)
    return figures


def key_of(size: str) -> str:
    return "cpu_s_per_kreq" if size == "1 KiB" else "cpu_s_per_GB"


def best(found: Rounds, mode: str, size: str, name: str) -> Figures | None:
    rounds = found.get((mode, size), {}).get(name)
    return min(rounds, key=lambda figures: figures[key_of(size)]) if rounds else None


def show(mode: str, size: str, found: Rounds) -> None:
    said = [
        f"{name} {figures[key_of(size)]:.3g}"
        for name in found[mode, size]
        if (figures := best(found, mode, size, name)) is not None
    ]
    print(f"{mode:<10} {size:<8} {key_of(size):<15} {'  '.join(said)}", flush=True)


def table(found: Rounds, names: list[str], before: float) -> str:
    out = [
        f"Measured {time.strftime('%Y-%m-%d')} at {revision()}; {machine()}; the least of the rounds; load before "
        f"{before:.1f}. CPU of all three nodes together.",
        "",
        f"| produce, 3 replicas, acks=all | mode | unit | {' | '.join(names)} | ratio | MB/s, p50 ms, memory MB |",
        "|---|---|---|" + "---:|" * (len(names) + 1) + "---|",
    ]
    for mode, size in found:
        figures = [best(found, mode, size, name) for name in names]
        values = [one[key_of(size)] if one else float("nan") for one in figures]
        ratio = f"{values[0] / values[1]:.2f}" if len(values) > 1 else "-"
        beside = " / ".join(
            f"{number(one['MBps'])}, {number(one['p50_ms'])}, {number(one['MB'])}" for one in figures if one
        )
        unit = "CPU ms/request" if size == "1 KiB" else "CPU s/GB"
        cells = " | ".join(number(value) for value in values)
        out.append(f"| {size} | {mode} | {unit} | {cells} | {ratio} | {beside} |")
    return "\n".join(out)
