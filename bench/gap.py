"""`python -m bench gap`: how long are clients without answers when a node dies, or restarts in order?

Three nodes, three replicas, one idempotent librdkafka producer with default settings, 500 messages a second:

  leader       kill -9 of the partition's leader, which is not the active controller
  controller   kill -9 of the active controller, which leads the partition as well
  rolling      the three nodes stop (SIGTERM) and start again, one after the other; three partitions
  all          kill -9 of all three nodes at once, which are started again at once
  two          the same with two of them
  hang         the leader stands still (SIGSTOP): nothing refuses, nothing answers; and the same where it is the
               active controller, too.  The producer gives a request up after 1 s here (socket.timeout.ms):
               by default librdkafka waits 60 s for it, whoever leads by then

Apache Kafka with the same settings and the same harness comes right after.
"""

from __future__ import annotations

import argparse
import signal
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from bench.peers import apache_is_here
from bench.processes import load, machine
from bench.report import put_between, revision
from bench.steady import Steady, Verdict
from bench.trio import KILL, STOP, ApacheTrio, BarnabasTrio, Trio, until

BEGIN, END = "<!-- begin: written by make bench ARGS=gap -->", "<!-- end: written by make bench ARGS=gap -->"
KINDS = ("leader", "controller", "rolling", "all", "two", "hang")
Found = dict[str, Any]


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench gap", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10, help="kills of each kind (10)")
    parser.add_argument("--kafka-rounds", type=int, default=3, help="the same for Apache Kafka (3)")
    parser.add_argument(
        "--only", default="leader,controller,rolling,all,two,hang", help="kinds, separated by commas"
    )
    parser.add_argument("--alone", action="store_true", help="do not run Apache Kafka")
    parser.add_argument("--no-write", action="store_true", help="print the table, leave docs/ as it is")
    options = parser.parse_args(words)
    before = load()
    kinds: list[tuple[type[Trio], int]] = [(BarnabasTrio, options.rounds)]
    if not options.alone:
        if why := apache_is_here():
            print(f"measuring alone: {why}")
        else:
            kinds.append((ApacheTrio, options.kafka_rounds))
    found: dict[str, Found] = {}
    for place, (kind, rounds) in enumerate(kinds):
        with tempfile.TemporaryDirectory(prefix="barnabas-gap-") as folder:
            trio = kind(Path(folder), 30092 + 100 * place, fsync=kind is BarnabasTrio)
            try:
                trio.start()
                found[trio.name] = measure(trio, rounds, options.only.split(","))
            finally:
                trio.stop()
    text = table(found, before)
    print(text)
    if not options.no_write:
        print(f"written: {put_between(BEGIN, END, text)}")
    return 0 if not any(total["lost"] + total["twice"] for total in found.values()) else 1


def measure(trio: Trio, rounds: int, kinds: list[str]) -> Found:
    """All kinds, one after the other; every figure in seconds."""
    found: Found = {"sent": 0, "acknowledged": 0, "failed": 0, "lost": 0, "twice": 0}
    for kind, run in (
        ("leader", leaders),
        ("controller", controllers),
        ("rolling", rolling),
        ("all", crashes),
        ("two", crashes),
        ("hang", hangs),
    ):
        if kind in kinds:
            how = {"many": 3 if kind == "all" else 2} if run is crashes else {}
            verdicts = run(trio, rounds, found, **how)
            for name, count in sum((Counter(verdict._asdict()) for verdict in verdicts), Counter()).items():
                found[name] += count
    found["sent"] = sum(found[name] for name in ("acknowledged", "failed"))
    return found


def say(trio: Trio, what: str, **figures: float) -> None:
    print(f"{trio.name:<13} {what:<26} {'  '.join(f'{k} {v:.2f} s' for k, v in figures.items())}", flush=True)


def kill(trio: Trio, topic: str, victim: int, steady: Steady, what: str, found: Found) -> None:
    """kill -9, wait until answers flow, start it again, wait until all replicas are in sync."""
    moment = time.monotonic()
    trio.seats[victim].end(KILL)
    until(lambda: steady.answered_since(moment, 3.0), 90, "answers after a kill")
    gap = steady.gap(moment)
    moment = time.monotonic()
    trio.start_one(victim)
    trio.wait_port(victim)
    until(lambda: trio.full(topic), 120, "all replicas in sync")
    full = time.monotonic() - moment
    say(trio, f"{what} {victim} killed", gap=gap, in_sync_after_start=full)
    found.setdefault(what, []).append(gap)
    found.setdefault("in sync", []).append(full)


def leaders(trio: Trio, rounds: int, found: Found) -> list[Verdict]:
    """One producer and one topic for all kills; the controller is the last of its replicas."""
    controller = trio.controller()
    others = [number for number in trio.seats if number != controller]
    trio.create("leaders", [[*others, controller]])
    with Steady(trio.bootstrap, "leaders", 1) as steady:
        for _ in range(rounds):
            steady.flowing()
            victim = trio.leader("leaders")
            what = "controller" if trio.controller() == victim else "leader"
            kill(trio, "leaders", victim, steady, what, found)
    return [steady.verdict()]


def controllers(trio: Trio, rounds: int, found: Found) -> list[Verdict]:
    """A topic of its own for each kill, which the active controller of that moment leads."""
    verdicts = []
    for number in range(rounds):
        controller = trio.controller()
        topic = f"controllers-{number}"
        trio.create(topic, [[controller, *(other for other in trio.seats if other != controller)]])
        with Steady(trio.bootstrap, topic, 1) as steady:
            steady.flowing()
            kill(trio, topic, controller, steady, "controller", found)
        verdicts.append(steady.verdict())
    return verdicts


def rolling(trio: Trio, rounds: int, found: Found) -> list[Verdict]:
    """Three partitions, each led by another node; every node stops and starts once."""
    numbers = list(trio.seats)
    trio.create("rolling", [numbers[n:] + numbers[:n] for n in range(len(numbers))])
    with Steady(trio.bootstrap, "rolling", len(numbers)) as steady:
        for number in numbers:
            steady.flowing()
            moment = time.monotonic()
            stopped = trio.seats[number].end(STOP)
            started = time.monotonic()
            trio.start_one(number)
            trio.wait_port(number)
            until(lambda: trio.full("rolling"), 120, "all replicas in sync")
            full = time.monotonic() - started
            steady.flowing()
            gap = steady.gap(moment)
            say(trio, f"node {number} restarted", gap=gap, stop=stopped, in_sync_after_start=full)
            found.setdefault("rolling", []).append(gap)
            found.setdefault("stop", []).append(stopped)
            found.setdefault("in sync after a stop", []).append(full)
    return [steady.verdict()]


def crashes(trio: Trio, rounds: int, found: Found, many: int) -> list[Verdict]:
    """So many nodes die at once and are started again at once; three partitions, each led by another node."""
    numbers = list(trio.seats)
    topic, what = f"crash-{many}", "all" if many == len(numbers) else "two"
    trio.create(topic, [numbers[n:] + numbers[:n] for n in range(len(numbers))])
    with Steady(trio.bootstrap, topic, len(numbers)) as steady:
        for turn in range(rounds):
            steady.flowing()
            victims = [numbers[(turn + n) % len(numbers)] for n in range(many)]
            moment = time.monotonic()
            for victim in victims:
                trio.seats[victim].end(KILL)
            for victim in victims:
                trio.start_one(victim)
            until(lambda at=moment: steady.answered_since(at, 3.0), 120, "answers after a crash")
            gap = steady.gap(moment)
            until(lambda: trio.full(topic), 120, "all replicas in sync")
            say(trio, f"{', '.join(map(str, victims))} killed", gap=gap)
            found.setdefault(what, []).append(gap)
    return [steady.verdict()]


def hangs(trio: Trio, rounds: int, found: Found) -> list[Verdict]:
    """The leader of a partition stands still until others have taken over; in turn it is the controller, too."""
    verdicts = []
    for turn in range(2 * rounds):
        controller = trio.controller()
        others = [number for number in trio.seats if number != controller]
        order = [controller, *others] if turn % 2 else [*others, controller]
        topic = f"hang-{turn}"
        trio.create(topic, [order])
        with Steady(trio.bootstrap, topic, 1, socket_timeout_ms=1000) as steady:
            steady.flowing()
            moment = time.monotonic()
            trio.seats[order[0]].signal(signal.SIGSTOP)
            try:
                until(lambda at=moment: steady.answered_since(at, 3.0), 120, "answers while the leader hangs")
                gap = steady.gap(moment)
            finally:
                trio.seats[order[0]].signal(signal.SIGCONT)
            until(lambda name=topic: trio.full(name), 120, "all replicas in sync")
            what = "controller hangs" if turn % 2 else "leader hangs"
            say(trio, f"{what}: {order[0]}", gap=gap)
            found.setdefault(what, []).append(gap)
        verdicts.append(steady.verdict())
    return verdicts


ROWS = (
    ("leader", "kill -9 of the leader: longest time without an ack", statistics.median, "median"),
    ("controller", "kill -9 of the active controller that leads", statistics.median, "median"),
    ("in sync", "from its start after a kill until all replicas are in sync", statistics.median, "median"),
    ("rolling", "rolling restart of the three nodes, longest time without an ack", max, "longest"),
    ("stop", "SIGTERM until the process is gone", statistics.median, "median"),
    ("in sync after a stop", "from its start until all replicas are in sync", statistics.median, "median"),
    ("all", "all three killed and started at once: longest time without an ack", statistics.median, "median"),
    ("two", "two killed and started at once: longest time without an ack", statistics.median, "median"),
    ("leader hangs", "SIGSTOP of the leader: longest time without an ack", statistics.median, "median"),
    ("controller hangs", "SIGSTOP of the active controller that leads", statistics.median, "median"),
)


def table(found: dict[str, Found], before: float) -> str:
    today = time.strftime("%Y-%m-%d")
    out = [
        f"Measured {today} at {revision()}; {machine()}; load before {before:.1f}.",
        "",
        "| what (seconds) | " + " | ".join(found) + " |",
        "|---|" + "---:|" * len(found),
    ]
    for key, what, figure, word in ROWS:
        cells = []
        for total in found.values():
            values = total.get(key, [])
            cells.append(
                f"{figure(values):.2f} ({min(values):.2f} to {max(values):.2f}, {len(values)} times)"
                if values
                else "-"
            )
        out.append(f"| {what}, {word} | " + " | ".join(cells) + " |")
    verdicts = [f"{t['acknowledged']:,}, {t['failed']} / {t['lost']} / {t['twice']}" for t in found.values()]
    out.append("| acknowledged, failed / lost / twice | " + " | ".join(verdicts) + " |")
    return "\n".join(out)
