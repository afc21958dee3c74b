"""Ctrl-C ends a job like a failure that is none: the query stops, and nothing breaks off a question to Java."""

from __future__ import annotations

import logging
import signal
import sys
import weakref
from collections.abc import Iterator

import pytest

from barnabas.cli.demo import Demo
from barnabas.pipeline.jobs.interrupts import INTERRUPTS
from barnabas.pipeline.jobs.progress import JobFailedError, Progress, run_to_end


class Query:
    """A streaming query as far as `run_to_end` looks at it; it says what was asked of it."""

    recentProgress = ()  # noqa: N815 (the name is Spark's)

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.asked: list[str] = []

    @property
    def isActive(self) -> bool:  # the name is Spark's
        self.asked.append("active")
        return self.error is None

    def exception(self) -> Exception | None:
        return self.error

    def stop(self) -> None:
        self.asked.append("stop")


@pytest.fixture(autouse=True)
def _as_in_a_command() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    with INTERRUPTS.noted():
        yield
    logging.disable(logging.NOTSET)
    assert signal.getsignal(signal.SIGINT) is before


def ctrl_c(*_: object) -> None:
    signal.raise_signal(signal.SIGINT)


def follow(query: Query) -> None:
    run_to_end(lambda: query, Progress("job", plain=True), goal={}, again="run it again")  # type: ignore[arg-type,return-value]


def test_a_ctrl_c_that_python_only_prints_ends_the_demo_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """It came in a callback, of which Python reports what is raised and goes on."""
    printed: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda ignored: printed.append(ignored.exc_type))
    thing = Query()
    watched = weakref.ref(thing, ctrl_c)
    del thing
    assert watched() is None and printed == [KeyboardInterrupt]
    with pytest.raises(KeyboardInterrupt):
        Demo.check(object.__new__(Demo))


def test_ctrl_c_stops_a_query_between_two_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", ctrl_c)
    query = Query()
    with pytest.raises(KeyboardInterrupt):
        follow(query)
    assert query.asked == ["active", "stop"]


def test_a_query_that_failed_because_ctrl_c_ended_its_workers_is_interrupted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    query = Query(RuntimeError("Python worker exited unexpectedly (crashed)"))
    monkeypatch.setattr(query, "exception", lambda: ctrl_c() or query.error)
    with pytest.raises(KeyboardInterrupt):
        follow(query)
    with pytest.raises(JobFailedError, match="crashed"), INTERRUPTS.noted():
        follow(Query(RuntimeError("Python worker exited unexpectedly (crashed)")))


def test_ctrl_c_counts_at_once_where_no_query_is_followed_and_when_it_comes_again() -> None:
    with pytest.raises(KeyboardInterrupt):
        ctrl_c()
    with INTERRUPTS.noted(), INTERRUPTS.asked_for():
        ctrl_c()
        with pytest.raises(KeyboardInterrupt):
            ctrl_c()
        with pytest.raises(KeyboardInterrupt):
            INTERRUPTS.check()
