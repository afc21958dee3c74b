"""`make move ROUNDS=10`: clusters of Apache Kafka move to Barnabas and back under traffic; a table of how it went.

Each round founds a cluster of Apache Kafka anew and goes there and back; another one is replaced by Apache Kafka
itself ("beside"), by the same requests.

python -m tests.compat.moving --rounds 10 --directions there,back,beside
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from bench.processes import machine
from bench.report import put_between, revision
from tests.compat.moving.nodes import Six
from tests.compat.moving.rounds import Known, Row, Traffic, complaints
from tests.compat.moving.steps import DIRECTIONS
from tools.peer import KAFKA_LIBS, PEER, SCRIPTS

__all__ = ["main", "table", "write"]

_BEGIN, _END = (
    "<!-- begin: written by make move ARGS=--write -->",
    "<!-- end: written by make move ARGS=--write -->",
)

_COURSES = (("there", "back"), ("beside",))
"""Directions that one cluster goes, one after the other."""
_HEAD = [
    "round",
    "direction",
    "s",
    "records",
    "lost",
    "twice",
    "anew",
    "longest gap ms",
    "transactions",
    "their gap ms",
    "read again",
    "anomalies",
    "failures",
]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the rounds; print a row after each, and the medians.  Returns 1 when anything is lost or there twice."""
    parser = argparse.ArgumentParser(prog="moving", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument(
        "--directions", default=",".join(DIRECTIONS), help="of there, back (with there), beside"
    )
    parser.add_argument("--write", action="store_true", help="put the medians into docs/performance.md")
    parser.add_argument("--log", type=Path, default=Path("moving.log"), help="where what was typed goes")
    options = parser.parse_args(arguments)
    wanted = set(options.directions.split(","))
    if unknown := wanted - DIRECTIONS.keys():
        parser.error(f"no such direction: {', '.join(sorted(unknown))}")
    if "back" in wanted and "there" not in wanted:
        parser.error("there is no way back without --directions there,back")
    if not (KAFKA_LIBS / ".complete").exists():
        parser.error(f"needs {PEER}: run {SCRIPTS / 'get-jars.sh'} first (Java 17, Maven)")
    found: list[tuple[int, Row]] = []
    wrong: list[str] = []
    print("  ".join(_HEAD), flush=True)
    for number in range(1, options.rounds + 1):
        for course in _COURSES:
            if directions := [one for one in course if one in wanted]:
                with options.log.open("a") as log, contextlib.redirect_stdout(log):
                    rows = _round(directions, wrong)
                found += [(number, row) for row in rows]
                for row in rows:
                    print("  ".join(map(str, (number, *row))), flush=True)
    print(f"\n{table(found)}")
    print("\n".join(wrong))
    if options.write:
        print(f"written: {write(found)}")
    return int(bool(wrong) or any(not row.whole for _, row in found))


def _round(directions: Iterable[str], wrong: list[str]) -> list[Row]:
    """Move one cluster, from its first node to its last; its nodes stay on the disk where anything is wrong."""
    direction, rows = "forming", list[Row]()
    folder = Path(tempfile.mkdtemp(prefix="moving-"))
    six, known, before = Six(SCRIPTS, folder), Known(), len(wrong)
    try:
        six.form()
        for direction in directions:
            traffic = Traffic(six, known)
            with traffic.during(direction):
                DIRECTIONS[direction](six)
            assert traffic.row is not None
            rows.append(traffic.row)
    except Exception as error:  # the other rounds go on
        wrong.append(f"{direction}: {error!r}")
    finally:
        six.close()
    wrong += complaints(six)
    if len(wrong) > before or not all(row.whole for row in rows):
        wrong.append(f"the nodes of it are left in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return rows


def table(found: Sequence[tuple[int, Row]]) -> str:
    """Return all rows as a table of Markdown, and for each direction a row of sums and medians."""
    return _markdown([*((str(number), row) for number, row in found), *_medians(found)])


def write(found: Sequence[tuple[int, Row]]) -> Path:
    """Put the sums and medians into docs/performance.md, between their marks; return its path."""
    said = f"Measured {datetime.date.today()} at {revision()}; {machine()}; all nodes and clients on it."
    return put_between(_BEGIN, _END, f"{said}\n\n{_markdown(_medians(found))}")


def _medians(found: Sequence[tuple[int, Row]]) -> Iterator[tuple[str, Row]]:
    """Yield a row for each direction: the medians of times, the sums of everything else."""
    for direction in DIRECTIONS:
        these = [row for _, row in found if row.direction == direction]
        if these:
            sums = {
                name: sum(getattr(row, name) for row in these) for name in Row._fields if name != "direction"
            }
            middle = {
                name: round(statistics.median(getattr(row, name) for row in these))
                for name in ("seconds", "gap_ms", "transactions_gap_ms")
            }
            yield f"all {len(these)}", Row(direction, **{**sums, **middle})


def _markdown(rows: Iterable[tuple[str, Row]]) -> str:
    lines = [[name, *map(str, row)] for name, row in rows]
    rule = ["---:" if name != "direction" else "---" for name in _HEAD]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (_HEAD, rule, *lines))


if __name__ == "__main__":
    sys.exit(main())
