"""Live whole quorums by seed: virtual time, faults, membership changes, and every promise checked.

barnabas simulate --seed 17              one seed, with its story where a promise was broken
barnabas simulate --seed 17 --story      its whole timeline
barnabas simulate --seeds 200 --first 1  many seeds, and what they came to
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

__all__ = ["add_arguments", "run"]

LEDGER = Path("simulation") / "ledger.jsonl"
_RECORD_EVERY = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of this noun."""
    parser.add_argument("--seed", type=int, metavar="N", help="live this one seed and tell of it")
    parser.add_argument("--story", action="store_true", help="with --seed: tell the whole timeline")
    parser.add_argument("--seeds", type=int, metavar="N", help="live so many seeds")
    parser.add_argument("--first", type=int, default=1, metavar="K", help="the first of them (default 1)")
    parser.add_argument("--jobs", type=int, default=2, metavar="J", help="processes (default 2)")
    parser.add_argument(
        "--resume", action="store_true", help=f"go on where {LEDGER} ends for this code, and add to it"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(arguments: argparse.Namespace) -> int:
    """0 when every promise was kept, 1 when one was broken, 2 for wrong usage."""
    if (arguments.seed is None) == (arguments.seeds is None):
        print("error: give either --seed or --seeds\n  next: barnabas simulate --help", file=sys.stderr)
        return 2
    if arguments.seed is not None:
        return _one(arguments)
    return _many(arguments)


def _one(arguments: argparse.Namespace) -> int:
    from barnabas.sim.life import run_seed
    from barnabas.sim.story import tell

    report = run_seed(arguments.seed, story=True)
    if arguments.json:
        document = {
            "version": 1,
            "seed": report.seed,
            "promise": report.promise,
            "error": report.error,
            "trace": report.digest,
            "setup": report.setup,
            "events": report.events,
            "virtual_seconds": round(report.virtual_seconds, 3),
            "cpu_seconds": round(report.cpu_seconds, 3),
            "commits": report.commits,
            "changes": report.changes,
            "faults": [str(fault) for fault in report.faults],
            "outcomes": dict(sorted(report.outcomes.items())),
        }
        print(json.dumps(document, indent=2))
    else:
        if report.ok and not arguments.story:
            report.story = []
        for line in tell(report, lines=0 if arguments.story else 60):
            print(line)
    return 0 if report.ok else 1


def _many(arguments: argparse.Namespace) -> int:
    from barnabas.sim.ledger import Ledger, code_hash
    from barnabas.sim.seeds import Summary, run_seeds
    from barnabas.sim.story import command

    ledger = Ledger(LEDGER, code_hash())
    first = ledger.next_seed(arguments.first) if arguments.resume else arguments.first
    total, summary, began = arguments.seeds, Summary(), time.monotonic()
    for start in range(first, first + total, _RECORD_EVERY):
        part = Summary()
        count = min(_RECORD_EVERY, first + total - start)
        for report in run_seeds(range(start, start + count), jobs=arguments.jobs):
            part.add(report)
            summary.add(report)
            if not report.ok:
                print(
                    f"seed {report.seed}: BROKEN {report.error}\n  again: {command(report.seed)}", flush=True
                )
        if arguments.resume:
            ledger.add(start, count, sorted(part.failed), part.virtual_seconds, part.cpu_seconds)
        if not arguments.json:
            spent = time.monotonic() - began
            print(
                f"seeds {first} to {start + count - 1}: {len(summary.failed)} failed, {spent:.0f} s",
                flush=True,
            )
    if arguments.json:
        print(json.dumps(summary.document() | {"first": first, "code": ledger.code}, indent=2))
    else:
        for line in summary.lines():
            print(line)
        if arguments.resume:
            print(f"ledger: {ledger.seeds()} seeds of this code, {ledger.seeds(all_code=True)} of any")
    return 1 if summary.failed else 0
