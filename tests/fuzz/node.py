"""The target `node`: mutated frames of every API and version against a real node in a process of its own.

Passed: no traceback, no internal error, memory and a good client's answers within bounds.  A seed draws the
same frames again.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
import tempfile
from pathlib import Path

from tests.fuzz.run import Report, fuzz

__all__ = ["main"]


def main(seed: int, count: int, *, as_json: bool, untimed: bool) -> int:
    """Send so many frames and tell what came of it; 0 or 1."""
    folder = Path(tempfile.mkdtemp(prefix="barnabas-fuzz-"))
    terminal = sys.stderr.isatty()

    def say(frames: int, hung_up: int) -> None:
        if terminal and frames % 100 == 0:
            print(f"\r{frames:,} of {count:,} frames, {hung_up:,} hung up", end="", file=sys.stderr)

    report = fuzz(seed, count, folder, say)
    slow = report.ping_during[1] > max(2 * report.ping_before[1], report.ping_before[1] + 10)
    if slow and not untimed:
        report.problems.append("the good client waited more than twice as long")
    if as_json:
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
