"""Many seeds for `barnabas simulate`: shows progress while they run, and writes their results to the ledger.

The ledger counts seeds without a gap from the first one on.  It is written every few dozen seeds and at the
end, also when an interrupt or a signal ends the run, and no more once the code on disk has changed.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol

if TYPE_CHECKING:
    from barnabas.sim.kernel.ledger import Ledger

__all__ = ["Kind", "Recorder", "run_many", "show_status"]

_RECORD_EVERY = 50
_SAY_EVERY = 10.0
"""Seconds between two lines where there is no terminal."""


class Report(Protocol):
    """What became of a seed."""

    seed: int
    error: str
    virtual_seconds: float
    cpu_seconds: float

    @property
    def ok(self) -> bool: ...


class Kind(NamedTuple):
    """Quorums or whole clusters: their ledger, what they come to, how seeds are run, and repeated.

    `flags` of `barnabas simulate` ask for this kind.
    """

    ledger: Ledger
    code: Callable[[], str]
    summary: Callable[[], Any]
    run_seeds: Callable[..., Iterator[Any]]
    command: Callable[[int], str]
    flags: str = ""


class Recorder:
    """Writes down how far the seeds from `first` on ran.  `ledger` None: nothing is written."""

    def __init__(self, ledger: Ledger | None, code: Callable[[], str], first: int) -> None:
        self.ledger = ledger
        self.first = first
        self.stale = False
        """The code has changed since: what runs from here on counts for nothing."""
        self._code = code
        self._ended: dict[int, Report] = {}

    def __repr__(self) -> str:
        return f"<Recorder from {self.first}, {len(self._ended)} not written>"

    def add(self, report: Report) -> None:
        """A seed has ended."""
        self._ended[report.seed] = report
        if len(self._ended) >= _RECORD_EVERY:
            self.flush()

    def flush(self) -> None:
        """Write what follows on the last seed without a gap."""
        ended: list[Report] = []
        while self.first + len(ended) in self._ended:
            ended.append(self._ended.pop(self.first + len(ended)))
        if not ended or self.ledger is None or self.stale:
            return
        if self._code() != self.ledger.code:
            self.stale = True
            return
        self.ledger.add(
            self.first,
            len(ended),
            [report.seed for report in ended if not report.ok],
            sum(report.virtual_seconds for report in ended),
            sum(report.cpu_seconds for report in ended),
        )
        self.first += len(ended)


def run_many(arguments: argparse.Namespace, kind: Kind) -> int:
    """Run them.  1 when a promise was broken, 130 when the run was interrupted."""
    ledger = kind.ledger if arguments.ledger or arguments.resume else None
    first = kind.ledger.next_seed(arguments.first) if arguments.resume else arguments.first
    seeds = range(first, first + arguments.seeds)
    summary, recorder, interrupted = kind.summary(), Recorder(ledger, kind.code, first), False
    began = time.monotonic()
    with _signals():
        try:
            with _progress(seeds, arguments.json) as said:
                for report in kind.run_seeds(seeds, jobs=arguments.jobs):
                    summary.add(report)
                    recorder.add(report)
                    said(summary, None if report.ok else _failure(report, kind))
        except KeyboardInterrupt:
            interrupted = True
    recorder.flush()
    spent = time.monotonic() - began
    if arguments.json:
        document = summary.document() | {"first": first, "code": kind.ledger.code, "interrupted": interrupted}
        print(json.dumps(document | {"wall_seconds": round(spent, 1)}, indent=2))
    else:
        for line in summary.lines():
            print(line)
        print(f"{spent:.0f} s by the clock with {arguments.jobs} processes")
        for line in _ledger_lines(recorder, interrupted, f"{kind.flags} --seeds {arguments.seeds}".strip()):
            print(line)
    return 130 if interrupted else 1 if summary.failed else 0


def _failure(report: Report, kind: Kind) -> str:
    return f"seed {report.seed}: BROKEN {report.error}\n  again: {kind.command(report.seed)}"


def _ledger_lines(recorder: Recorder, interrupted: bool, flags: str) -> Iterator[str]:
    ledger = recorder.ledger
    if interrupted:
        kept = "what was lived is in the ledger" if ledger else "nothing was written down (no --ledger)"
        yield f"interrupted; {kept}\n  next: barnabas simulate {flags} --resume"
    if recorder.stale:
        yield "the code changed during the run: the seeds after that are not in the ledger"
    if ledger is not None:
        yield f"ledger: {ledger.seeds()} seeds of this code, {ledger.seeds(all_code=True)} of any"


def show_status(ledger: Ledger, as_json: bool) -> int:
    """Show how many seeds the ledger counts."""
    codes = ledger.by_code()
    if as_json:
        rows = [
            {"code": one.code, "seeds": one.seeds, "failed": one.failed, "from": one.began, "to": one.ended}
            for one in codes
        ]
        document = {"version": 1, "code": ledger.code, "seeds": ledger.seeds(), "codes": rows}
        print(json.dumps(document, indent=2))
        return 0
    print(f"{'CODE':16}  {'SEEDS':>8}  {'FAILED':>6}  {'FROM':10}  {'TO':10}")
    for one in codes:
        days = f"{one.began or '-':10}  {one.ended or '-':10}"
        mark = "  this code" if one.code == ledger.code else ""
        print(f"{one.code:16}  {one.seeds:8,}  {len(one.failed):6}  {days}{mark}")
    print(f"{ledger.seeds():,} seeds of this code ({ledger.code}), {ledger.seeds(all_code=True):,} of any")
    return 0


# ------------------------------------------------------------------ while they run


@contextmanager
def _signals() -> Iterator[None]:
    """SIGTERM ends a run as Control-C does."""

    def stop(number: int, frame: object) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _progress(seeds: range, quiet: bool) -> Iterator[Callable[[Any, str | None], None]]:
    """A function that is told of every seed: a bar on a terminal, else a line now and then."""
    if quiet:
        yield lambda summary, failure: None
        return
    if sys.stderr.isatty():
        with _bar(seeds) as said:
            yield said
        return
    began = said_at = time.monotonic()

    def say(summary: Any, failure: str | None) -> None:
        nonlocal said_at
        now = time.monotonic()
        if failure is not None:
            print(failure, flush=True)
        if now - said_at >= _SAY_EVERY or summary.seeds == len(seeds):
            said_at = now
            rate = summary.seeds / max(now - began, 1e-9)
            left = (len(seeds) - summary.seeds) / max(rate, 1e-9)
            print(
                f"{summary.seeds:,} of {len(seeds):,} seeds from {seeds.start} on, "
                f"{len(summary.failed)} failed, {rate:.1f} a second, {_minutes(left)} to go",
                flush=True,
            )

    yield say


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02} min"


@contextmanager
def _bar(seeds: range) -> Iterator[Callable[[Any, str | None], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        BarColumn(),
        TextColumn("{task.completed:,} of {task.total:,} seeds, {task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("to go"),
        TimeRemainingColumn(),
    )
    began = time.monotonic()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("seeds", total=len(seeds), rate="")

        def say(summary: Any, failure: str | None) -> None:
            if failure is not None:
                bar.console.print(failure, markup=False, highlight=False)
            rate = summary.seeds / max(time.monotonic() - began, 1e-9)
            bar.update(
                task, completed=summary.seeds, rate=f"{len(summary.failed)} failed, {rate:.1f} a second"
            )

        yield say
