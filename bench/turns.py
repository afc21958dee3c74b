"""`python -m bench turns`: how long is the event loop held while a cluster is worked on?

Three nodes, and one librdkafka producer (acks=all) at 500 messages a second to a topic of three partitions.
Meanwhile, in rounds: a topic of many partitions with three replicas is created and deleted, leaders move, and
what runs by itself (maintenance, checkpoints, snapshots) runs often.  Every step of every node's loop is measured
in CPU seconds (`bench/watched.py`); printed are the longest ones by their cause, and the client's waits by phase.

With `--minutes 10` or `--hour` the rounds go on for so long, kill each node in turn and change the voters too;
`--busy 20` keeps the machine at a load of 20 meanwhile.  The last line says whether a live node was fenced.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from bench.clients import quantile
from bench.turns_long import LONG_MS, LongScript, Occupied, verdict
from bench.turns_script import Load, Script, WatchedTrio

OFTEN = {
    "replica.high.watermark.checkpoint.interval.ms": "1000",
    "log.flush.offset.checkpoint.interval.ms": "5000",
    "log.retention.check.interval.ms": "2000",
    "metadata.log.max.record.bytes.between.snapshots": "100000",
    "metadata.log.max.snapshot.interval.ms": "10000",
}
"""What runs once in minutes or hours, often."""


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench turns", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="rounds of the script (3)")
    parser.add_argument("--partitions", type=int, default=1000, help="of the wide topic (1000)")
    parser.add_argument("--show", type=int, default=25, help="so many long steps are printed (25)")
    parser.add_argument("--minutes", type=float, help="rounds of a longer script for so long instead")
    parser.add_argument("--hour", action="store_true", help="the same as --minutes 60")
    parser.add_argument("--busy", type=int, default=0, help="so many processes use the processors meanwhile")
    options = parser.parse_args(words)
    minutes: float | None = 60.0 if options.hour else options.minutes
    with tempfile.TemporaryDirectory(prefix="barnabas-turns-") as folder, Occupied(options.busy):
        trio = WatchedTrio(Path(folder), 31092, fsync=True)
        for seat in trio.seats.values():
            with seat.properties.open("a") as file:
                file.writelines(f"{name}={value}\n" for name, value in OFTEN.items())
        try:
            trio.start()
            trio.create("steady", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
            load = Load(trio.bootstrap, "steady", 3)
            kind = Script if minutes is None else LongScript
            script = kind(trio, load, options.partitions)

            thread = threading.Thread(target=load.run, daemon=True)
            thread.start()
            time.sleep(2)
            try:
                if isinstance(script, LongScript):
                    script.run_for(60 * (minutes or 0.0))
                else:
                    script.run(options.rounds)
            finally:
                load.over = True
                thread.join(90)
        finally:
            trio.stop()
        steps = [
            {"node": seat.number, **json.loads(line)}
            for seat in trio.seats.values()
            for line in (seat.folder / "steps.jsonl").read_text().splitlines()
        ]
        logs = {seat.number: (seat.folder / "log").read_text() for seat in trio.seats.values()}
    report(script, load, steps, options.show)
    return verdict(script, steps, logs) if isinstance(script, LongScript) else 0


def report(script: Script, load: Load, steps: list[dict[str, Any]], show: int) -> None:
    def phase(step: dict[str, Any]) -> str:
        return next((name for name, begun, ended in script.phases if begun <= step["at"] <= ended), "")

    heads = "ms until acknowledged; steps above 10 ms CPU"
    print(f"\n{'phase':<24} {'p50':>8} {'p99':>8} {'p99.9':>8}   {heads}")
    for name in dict.fromkeys(name for name, _, _ in script.phases):
        waits = sorted(load.waits.get(name, []))
        long = sorted(
            (s["cpu_ms"] for s in steps if s["cpu_ms"] > LONG_MS and phase(s) == name), reverse=True
        )
        figures = " ".join(f"{1000 * quantile(waits, q):8.1f}" for q in (0.5, 0.99, 0.999))
        print(f"{name:<24} {figures}   {len(long)}: {' '.join(map(str, long[:6]))}")
    print(f"messages that failed: {load.failed}")
    steps.sort(key=lambda step: -step["cpu_ms"])
    for step in steps[:show]:
        took = f"{step['cpu_ms']:7.1f} ms CPU {step['wall_ms']:7.1f} wall {step['gc_ms']:5.1f} gc"
        print(f"{took}  n{step['node']} in '{phase(step)}': {step['what']}")
        for count, frames in step["where"]:
            print(f"           {count:4} {frames}")
