"""`python -m bench rf3`: what three replicas cost: CPU of all three nodes per request and per GB.

Three combined nodes of each kind; topics of three partitions with three replicas, min.insync.replicas 2, acks=all,
three connections with five requests each; page cache on both sides, then a sync before each answer on both
(`log.flush.interval.messages=1`, which Kafka's followers heed as well).  `bench/replicated_parts.py` has the rest:
one record in flight, idle partitions, requests for ten partitions, a fan-out, a thousand connections.

`--only` selects parts by their group or a part of their name.  Every part is warmed up on its own until its figure
stands still; then the sides take turns, each stopped while another runs, and the least of each counts.
`--old COMMIT` compares with Barnabas at that commit.
A choice of parts that has a place of its own in docs/performance.md is written there.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.cells import Figures, Load, build_load_client
from bench.earlier import EarlierTrio, checkout
from bench.page_cache import PageCache
from bench.peers import apache_is_here
from bench.processes import PATIENT, load, machine, stopped
from bench.replicated_parts import FSYNC, IDLE_TOPIC, PAGE_CACHE, Part, parts
from bench.report import DOCS, number, put_between, revision
from bench.trio import ApacheTrio, BarnabasTrio, Trio, until
from bench.warmth import run_until_still

Rounds = dict[str, list[Figures]]
_CATCHES_UP_S = 1.0
"""A side that was stopped does what became due meanwhile, before its turn."""


def main(words: Sequence[str]) -> int:
    options = _arguments(words)
    kinds: list[type[Trio]] = [BarnabasTrio]
    if options.old:
        kinds.append(EarlierTrio)
    elif not options.alone and (why := apache_is_here()) is None:
        kinds.append(ApacheTrio)
    elif not options.alone:
        print(f"measuring alone: {why}")
    wanted = [part.strip() for part in options.only.split(",")]
    ports = itertools.count(options.port, 100)
    before, found = load(), list[tuple[Part, Rounds]]()
    with (
        tempfile.TemporaryDirectory(prefix="barnabas-rf3-") as name,
        PageCache(Path(name), used=len(kinds) > 1) as pages,
        checkout(options.old),
    ):
        folder = Path(name)
        for mode in options.modes.split(","):
            client = Load(build_load_client(folder))
            chosen = [
                part
                for part in parts(client, options.seconds)
                if part.mode == mode and any(word == part.group or word in part.name for word in wanted)
            ]
            if not chosen:
                continue
            with _running(kinds, folder, ports, mode) as trios:
                for part in chosen:
                    found.append((part, _measure(part, trios, options.rounds, pages)))
    text = table(found, [kind.name for kind in kinds], before, options.rounds)
    print(text)
    if options.old:
        return 0
    asked = f'"rf3 --only {options.only}"' if options.only else "rf3"
    begin, end = (f"<!-- {word}: written by make bench ARGS={asked} -->" for word in ("begin", "end"))
    if begin not in (DOCS / "performance.md").read_text():
        print(f"not written: docs/performance.md has no place for {asked}")
    elif not options.no_write:
        print(f"written: {put_between(begin, end, text)}")
    return 0


def _arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench rf3", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each side (5)")
    parser.add_argument("--seconds", type=float, default=4.0, help="length of one run (4)")
    parser.add_argument("--only", default="", help="groups (produce, single, wide, ...) or parts of names")
    parser.add_argument("--modes", default=f"{PAGE_CACHE},{FSYNC}", help="durability modes, by commas")
    parser.add_argument("--alone", action="store_true", help="do not run Apache Kafka")
    parser.add_argument("--old", metavar="COMMIT", help="Barnabas at this commit in Apache Kafka's place")
    parser.add_argument("--port", type=int, default=31092, help="the first port (31092)")
    parser.add_argument("--no-write", action="store_true", help="print the table, leave docs/ as it is")
    return parser.parse_args(words)


@contextlib.contextmanager
def _running(
    kinds: Sequence[type[Trio]], folder: Path, ports: Iterator[int], mode: str
) -> Iterator[list[Trio]]:
    """A trio of each kind; what they wrote is deleted afterwards."""
    trios = [
        kind(folder / f"{kind.__name__}-{mode[:4]}", next(ports), fsync=mode == FSYNC, settings=PATIENT)
        for kind in kinds
    ]
    try:
        for trio in trios:
            trio.start()
        yield trios
    finally:
        for trio in trios:
            trio.stop()
        for trio in trios:
            subprocess.run(["rm", "-rf", *(str(seat.folder) for seat in trio.seats.values())], check=False)


def _measure(part: Part, trios: Sequence[Trio], rounds: int, pages: PageCache) -> Rounds:
    """Warm each side up, then all of them in turn."""
    found: Rounds = {}
    for trio in trios:
        _rest(trio, part.idle)
        pages.fill()
        warmed = _warm(part, trio)
        print(
            f"  {trio.name}, {part.name}: warm after {len(warmed)} runs, {warmed[0]:.3g} to {min(warmed):.3g}"
        )
    for _ in range(rounds):
        for trio in trios:
            pages.fill()
            with stopped(pid for other in trios if other is not trio for pid in other.pids):
                found.setdefault(trio.name, []).append(part.run(trio))
            time.sleep(_CATCHES_UP_S)
    said = [f"{name} {best(part, figures)[part.key]:.3g}" for name, figures in found.items()]
    print(f"{part.mode:<10} {part.name:<40} {part.unit:<14} {'  '.join(said)}", flush=True)
    return found


def _warm(part: Part, trio: Trio) -> list[float]:
    """Run it until the figure stands still."""
    if isinstance(trio, ApacheTrio):
        return run_until_still(lambda: part.run(trio)[part.key])
    return [part.run(trio)[part.key]]


def _rest(trio: Trio, count: int) -> None:
    """So many partitions with three replicas exist, which nobody writes to; the leaders are spread."""
    nodes = list(trio.seats)
    there = trio.admin.list_topics(timeout=60).topics.get(IDLE_TOPIC)
    have = len(there.partitions) if there is not None and there.error is None else 0
    if have == count:
        return
    if have:
        trio.admin.delete_topics([IDLE_TOPIC])[IDLE_TOPIC].result(120)
        until(lambda: IDLE_TOPIC not in trio.admin.list_topics(timeout=60).topics, 120, "deleted")
    if count:
        turns = [nodes[n:] + nodes[:n] for n in range(len(nodes))]
        trio.create(IDLE_TOPIC, [turns[n % len(turns)] for n in range(count)])
        time.sleep(5)


def best(part: Part, rounds: Sequence[Figures]) -> Figures:
    """The least of the compared figure, and of the time that is shown beside it."""
    least = min(rounds, key=lambda figures: figures[part.key])
    return {**least, "p50_ms": min(figures["p50_ms"] for figures in rounds)}


def table(found: Sequence[tuple[Part, Rounds]], names: Sequence[str], before: float, rounds: int) -> str:
    out = [
        f"Measured {time.strftime('%Y-%m-%d')} at {revision()}; {machine()}; the least of {rounds} interleaved "
        f"rounds; load before {before:.1f}. CPU of all three nodes together.",
        "",
        f"| 3 replicas, acks=all | mode | unit | {' | '.join(names)} | ratio | requests/s, p50 ms, memory MB |",
        "|---|---|---|" + "---:|" * (len(names) + 1) + "---|",
    ]
    for part, by_name in found:
        figures = [best(part, by_name[name]) for name in names]
        values = [one[part.key] for one in figures]
        ratio = f"{values[0] / values[1]:.2f}" if len(values) > 1 else "-"
        beside = " / ".join(
            f"{number(one['req_s'])}, {number(one['p50_ms'])}, {number(one['MB'])}" for one in figures
        )
        cells = " | ".join(number(value) for value in values)
        out.append(f"| {part.name} | {part.mode} | {part.unit} | {cells} | {ratio} | {beside} |")
    return "\n".join(out)
