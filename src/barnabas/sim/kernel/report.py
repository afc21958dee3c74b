"""What a seed reports: its faults as they happened, the lines of its story, the invariant that was violated."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import process_time
from typing import NamedTuple

from barnabas.sim.kernel.events import StepLimit

__all__ = ["InvariantViolation", "Occurrence", "Report", "StoryLine", "ending", "recorded", "timeline"]


class InvariantViolation(AssertionError):  # noqa: N818 - the name of what happened
    """An invariant is violated.  `invariant` is its name, `text` what was seen."""

    def __init__(self, invariant: str, text: str) -> None:
        super().__init__(f"{invariant}: {text}")
        self.invariant = invariant
        self.text = text


class StoryLine(NamedTuple):
    """A line of the story.  `who`: a node, a client, or the world."""

    time: float
    who: str
    text: str


@dataclass(slots=True)
class Occurrence:
    """A fault as it happened; `overlaps`: a change of the voters was pending."""

    time: float
    name: str
    text: str
    lasts: float
    overlaps: bool = False

    def __str__(self) -> str:
        mark = " (during a change)" if self.overlaps else ""
        return f"{self.time:8.3f}  {self.name}: {self.text}, {self.lasts:.2f} s{mark}"


@dataclass(slots=True)
class Report:
    """The result of a seed.  `invariant` names the one that was violated; "" when all held."""

    seed: int
    invariant: str = ""
    error: str = ""
    digest: str = ""
    setup: str = ""
    events: int = 0
    virtual_seconds: float = 0.0
    cpu_seconds: float = 0.0
    faults: list[Occurrence] = field(default_factory=list)
    operations: Counter[str] = field(default_factory=Counter)
    story: list[StoryLine] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.invariant


@contextmanager
def recorded(report: Report) -> Iterator[None]:
    """Whatever a seed raises stands in its report; and so does the time it took."""
    began = process_time()
    try:
        yield
    except InvariantViolation as violation:
        report.invariant, report.error = violation.invariant, str(violation)
    except StepLimit as limit:
        report.invariant, report.error = "limit", str(limit)
    except Exception as error:
        report.invariant = "crash"
        report.error = f"{error!r}\n{''.join(traceback.format_exception(error)[-6:])}"
    report.cpu_seconds = process_time() - began


def timeline(report: Report, commits: int, refusals: Mapping[int, str], lines: int) -> Iterator[str]:
    """What a seed was and what happened in it; `lines` of its story (0: all); `refusals`: why nodes stay down."""
    yield f"seed {report.seed}: {report.setup}"
    yield f"{report.events} events in {report.virtual_seconds:.0f} virtual seconds, {commits} commits"
    for fault in report.faults:
        yield f"  {fault.time:8.3f}  {fault.name}: {fault.text}"
    for node, why in sorted(refusals.items()):
        yield f"node {node} refuses: {why}"
    for line in report.story if lines == 0 else report.story[-lines:]:
        who = f"  {line.who}  " if line.who else "      "
        yield f"{line.time:10.4f}{who}{line.text}"


def ending(report: Report, outcome: str, command: str) -> Iterator[str]:
    """The last lines of a seed's story: its outcome, or what was violated and how to see it again."""
    if report.ok:
        yield f"{outcome}; trace {report.digest}"
    else:
        yield f"BROKEN {report.error}"
        yield f"trace {report.digest}"
        yield f"again: {command}"
