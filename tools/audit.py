"""`make audit`, part of `make check`: are weaknesses known of what is locked?  Asked of pip-audit.

Exit code 1 only where one is known.  Without a network, or where the index has no such data, it says so:
what nobody could ask is not a weakness, and not an all-clear either.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from tools.lock import GROUPS, LOCKS

__all__ = ["Outcome", "judged", "pins"]

LONGEST_S = 20
ACCEPTED: dict[str, str] = {}
"""Weaknesses that do not concern us: id -> why.  Each has a row in docs/threat-model.md."""


class Outcome(NamedTuple):
    """What is known: lines for people, and whether it must stop a change."""

    lines: list[str]
    failed: bool


def pins() -> list[str]:
    """Every package and version of every lock, once, without hashes and markers."""
    lines = [line for group in GROUPS for line in (LOCKS / f"{group}.txt").read_text().splitlines()]
    return sorted({line.split()[0] for line in lines if "==" in line.partition(" ")[0]})


def rounds(asked: list[str]) -> list[list[str]]:
    """The same pins, such that no package is in one list twice: versions differ by platform."""
    found: list[dict[str, str]] = []
    for pin in asked:
        name = pin.partition("==")[0]
        place = next((one for one in found if name not in one), None)
        if place is None:
            found.append(place := {})
        place[name] = pin
    return [list(one.values()) for one in found]


def judged(said: str, count: int, why: str = "") -> Outcome:
    """What pip-audit's JSON comes to; `count` packages were asked about.  `why`: what it complained of."""
    try:
        found: list[dict[str, Any]] = json.loads(said)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return Outcome([f"audit: NOT DONE for {count} packages: {why or 'pip-audit could not ask'}"], False)
    unknown = [one["name"] for one in found if "skip_reason" in one]
    lines, failed = [], False
    for one in found:
        for weakness in one.get("vulns", ()):
            fixed = ", ".join(weakness.get("fix_versions") or ()) or "no release yet"
            accepted = ACCEPTED.get(weakness["id"])
            failed |= accepted is None
            verdict = f"accepted: {accepted}" if accepted else f"next: take {fixed}, then make lock"
            lines.append(f"audit: {one['name']} {one['version']} has {weakness['id']} ({verdict})")
    if unknown:
        lines.append(f"audit: NOT DONE for {len(unknown)} of {count} packages: the index has no such data")
    if not lines:
        lines.append(f"audit: no weakness is known of {count} packages")
    return Outcome(lines, failed)


def main() -> int:
    failed = False
    for asked in rounds(pins()):
        outcome = ask(asked)
        print(*outcome.lines, sep="\n")
        failed |= outcome.failed
    return int(failed)


def ask(asked: list[str]) -> Outcome:
    """Ask about these pins."""
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder) / "pins.txt"
        requirements.write_text("\n".join(asked) + "\n")
        command = [sys.executable, "-m", "pip_audit", "--no-deps", "--disable-pip", "--progress-spinner=off"]
        command += ["--timeout", "5", "-f", "json", "-r", str(requirements)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S, check=False)
        except subprocess.TimeoutExpired:
            return judged("", len(asked), "no answer in time")
    complaint = done.stderr.strip().splitlines()[-1:]
    return judged(done.stdout, len(asked), complaint[0][:200] if complaint else "")


if __name__ == "__main__":
    sys.exit(main())
