"""How far a job is: a bar with rows per second on a terminal, a plain line every few seconds elsewhere.

`run_to_end` is what jobs that are streaming queries do: start, follow, start again where Spark had no patience.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from barnabas.errors import BarnabasError
from barnabas.pipeline.jobs.interrupts import INTERRUPTS
from barnabas.pipeline.late_workers import LateWorkers
from barnabas.pipeline.offsets import Offsets, Positions

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["JobFailedError", "Progress", "plain_failure", "run_to_end"]

_PLAIN_EVERY_S = 5.0
_LOST = "archive and mirror go on with what is there with --accept-loss; or begin again in another directory"
"""What a job can do where records were deleted before they were read: it has no options of Spark."""
_STRANGE_TIME = (
    "a job keeps the time of each record: copy the topic in a query that leaves the column timestamp out, "
    "and give the job the copy"
)
"""The same where a record has a timestamp that Spark cannot hold."""


class JobFailedError(BarnabasError):
    """A job did not come to its end; what it wrote whole is kept."""


class Progress:
    """`with Progress("archive") as progress: progress.show(rows, lag)`; on stderr."""

    def __init__(self, title: str, *, plain: bool | None = None) -> None:
        self.title = title
        self.plain = not sys.stderr.isatty() if plain is None else plain
        self.rows = 0
        self._began = time.monotonic()
        self._told = self._began
        self._bar: Any = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, line: str) -> None:
        """One line that stays."""
        if self._bar is not None:
            self._bar.console.print(line)
        else:
            sys.stderr.write(line + "\n")
            sys.stderr.flush()

    def begin(self) -> None:
        """The work begins now: what came before was Spark's start."""
        self._began = time.monotonic()

    def rate(self) -> float:
        """Rows per second."""
        return self.rows / max(time.monotonic() - self._began, 0.001)

    def show(self, rows: int, lag: int) -> None:
        """Rows of this run so far, and offsets that are left."""
        self.rows = rows
        if not self.plain:
            self._show_bar(rows, lag)
        elif time.monotonic() - self._told >= _PLAIN_EVERY_S:
            self._told = time.monotonic()
            self.say(f"{self.title}: {rows:,} rows, {self.rate():,.0f} a second, {lag:,} to go")

    def _show_bar(self, rows: int, lag: int) -> None:
        if self._bar is None:
            self._bar = _bar()
            self._bar.start()
            self._bar.add_task(self.title, total=rows + lag, rate="")
        self._bar.update(0, completed=rows, total=rows + lag, rate=f"{self.rate():,.0f}/s")


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as RichProgress

    return RichProgress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )


def run_to_end(
    start: Callable[[], StreamingQuery],
    progress: Progress,
    *,
    goal: Offsets,
    again: str,
    heard: Callable[[int, int], bool] = lambda rows, lag: False,
) -> None:
    """Run a query until it ends.  Raises JobFailedError, with `again` as the next step.

    `goal`: where its partitions end as far as is known.  `heard` takes rows of this run and the lag now and then;
    True: the job is to stop here, which is no error.
    """
    done = Done(0, goal)

    def begin() -> StreamingQuery:
        nonlocal done
        query = start()
        progress.begin()
        done = Done(done.rows, goal)  # (rows of queries that Spark gave up on count, too)
        return query

    def look(query: StreamingQuery) -> bool:
        INTERRUPTS.check()
        shown = done.look(query, progress)
        return (shown or not query.isActive) and heard(done.rows, done.lag)

    with INTERRUPTS.asked_for():
        failure = LateWorkers(progress.say).follow(begin, look)
        INTERRUPTS.check()  # (Ctrl-C ends Spark's workers as well, of which the query fails)
    if failure is not None:
        raise plain_failure(failure, again) from failure


class Done:
    """What a query has done, added up from its micro-batches."""

    def __init__(self, rows: int, goal: Offsets) -> None:
        self.rows = rows
        self.lag = sum(goal.values())
        self._goal = goal
        self._seen = -1

    def look(self, query: StreamingQuery, progress: Progress) -> bool:
        """Take micro-batches that are new, and show them; False before the first one."""
        for one in query.recentProgress:
            batch = json.loads(one.json)
            if batch["batchId"] <= self._seen:
                continue
            self._seen = batch["batchId"]
            self.rows += sum(source["numInputRows"] for source in batch["sources"])
            source = batch["sources"][0]
            at = _offsets(source.get("endOffset"))
            ends = self._goal | _offsets(source.get("latestOffset"))
            self.lag = sum(max(0, end - at.get(where, 0)) for where, end in ends.items())
        if self._seen < 0:
            return False
        progress.show(self.rows, self.lag)
        return True


def _offsets(said: Any) -> Offsets:
    return dict(Positions.read(said).offsets) if said else {}


def _with_causes(error: BaseException) -> str:
    """What an error of Spark says, and what those say that caused it: PySpark keeps them beside its words."""
    said: list[str] = []
    found: Any = error
    while found is not None and len(said) < 20:
        said += [str(found), str(getattr(found, "_stackTrace", ""))]
        found = getattr(found, "_cause", None)
    return "\n".join(said)


def plain_failure(error: BaseException, again: str) -> BarnabasError:
    """What went wrong in one line: the words of our own error if it was one, else Spark's innermost cause."""
    text, whole = str(error), _with_causes(error)
    if "No space left on device" in whole or "Disk quota exceeded" in whole:
        return JobFailedError("the disk is full", next_step=f"free some space, then {again}")
    ours = re.findall(r"^.*?\b(?:barnabas\.[\w.]+|[A-Z]\w+(?:Error|Failed)): (.+)$", text, re.MULTILINE)
    caused = re.findall(r"^Caused by: (.+)$", text if ours else whole, re.MULTILINE)
    first = [line for line in text.splitlines() if line.strip()][:1]
    reason = (ours or caused or first or [type(error).__name__])[-1].strip()
    advice = re.findall(r"^next: (.+)$", text, re.MULTILINE) if ours else []
    for option, instead in (("failOnDataLoss", _LOST), ('.option("columns"', _STRANGE_TIME)):
        if advice and option in advice[-1]:
            return JobFailedError(reason, next_step=instead)
    return JobFailedError(reason, next_step=advice[-1].strip() if advice else again)
