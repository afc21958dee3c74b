"""`make fuzz FRAMES=300000 SEED=1`: mutated frames of every API and version against a real node.

Exit code 0: no traceback, no internal error, memory and a good client's answers within bounds.  1: the
report says what not.  A seed draws the same frames again.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import sys
import tempfile
from pathlib import Path

from tests.fuzz.run import Report, fuzz


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=300_000, help="how many (300,000)")
    parser.add_argument("--seed", type=int, default=1, help="which ones (1)")
    parser.add_argument("--json", action="store_true", help="the report as one JSON document")
    parser.add_argument(
        "--untimed", action="store_true", help="the machine is busy: no verdict about waiting"
    )
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="barnabas-fuzz-"))
    terminal = sys.stderr.isatty()

    def say(frames: int, hung_up: int) -> None:
        if terminal and frames % 100 == 0:
            print(f"\r{frames:,} of {options.frames:,} frames, {hung_up:,} hung up", end="", file=sys.stderr)

    report = fuzz(options.seed, options.frames, folder, say)
    slow = report.ping_during[1] > max(2 * report.ping_before[1], report.ping_before[1] + 10)
    if slow and not options.untimed:
        report.problems.append("the good client waited more than twice as long")
    if options.json:
        print(json.dumps({**dataclasses.asdict(report), "ok": report.ok}))
    else:
        tell(report)
    if report.ok:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"data and log: {folder}", file=sys.stderr)
    return 0 if report.ok else 1


def tell(report: Report) -> None:
    """The report, for people."""
    print(f"\nseed {report.seed}: {report.frames:,} frames in {report.seconds:.0f} s")
    print(f"  {len(report.kinds)} kinds of mutation, {len(report.requests)} APIs and versions")
    print(
        f"  connections that the node ended: {report.hung_up:,}; its log: {report.log_bytes / 1024:.0f} KiB"
    )
    print(f"  memory {report.rss_before / 1024:.0f} -> {report.rss_after / 1024:.0f} MiB")
    print(
        "  a good client's Metadata, p50 / p99 ms: "
        f"beside well-formed frames {report.ping_before[0]:.1f} / {report.ping_before[1]:.1f}, "
        f"beside these {report.ping_during[0]:.1f} / {report.ping_during[1]:.1f}"
    )
    for problem in report.problems:
        print(f"  PROBLEM {problem}")
    print("PASSED" if report.ok else "FAILED")


if __name__ == "__main__":
    sys.exit(main())
