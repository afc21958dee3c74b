"""A query that failed because a Python worker of Spark's started too late goes on; any other failure is one."""

from __future__ import annotations

import json
from queue import Queue
from typing import Any

import pytest

from barnabas.errors import ConfigError
from barnabas.pipeline.jobs.flights_query import Reached
from barnabas.pipeline.late_workers import LATE, LateWorkers

TOO_LATE = RuntimeError(f"[STREAM_FAILED] Query terminated with exception: {LATE}. SQLSTATE: XXKST")


class Query:
    """A streaming query as far as `follow` looks at it."""

    def __init__(
        self, error: Exception | None, reached: int | None = None, day: str = "2014-01-01T00:00:00.000Z"
    ) -> None:
        """`reached`: an offset; `day`: its watermark."""
        self.error = error
        self.reached = reached
        self.day = day
        self.stopped = False

    isActive = property(lambda self: self.error is None)  # noqa: N815 (the name is Spark's)

    def stop(self) -> None:
        self.stopped = True

    def exception(self) -> Exception | None:
        return self.error

    @property
    def lastProgress(self) -> Any:  # the name is Spark's
        if self.reached is None:
            return None
        source = {"endOffset": {"t": {"0": self.reached}}}
        said = {
            "batchId": 0,
            "numInputRows": self.reached,
            "sources": [source],
            "eventTime": {"watermark": self.day},
        }
        return type("Progress", (), {"json": json.dumps(said)})


def ends_at(offset: int) -> Queue[str | None]:
    lines: Queue[str | None] = Queue()
    lines.put(json.dumps({"t": {"0": offset}}))
    return lines


def test_a_query_whose_worker_was_late_starts_again_and_each_time_is_told() -> None:
    told: list[str] = []
    queries = [Query(TOO_LATE), Query(TOO_LATE), Query(None, 7)]
    reached = Reached(ends_at(7))
    assert LateWorkers(told.append).follow(lambda: queries.pop(0), reached.look, pause=0) is None
    assert reached.is_whole() and not reached.alone and not queries
    assert [line.partition("; ")[2] for line in told] == ["trying again (1 of 5)", "trying again (2 of 5)"]


def test_a_query_whose_workers_are_always_late_ends_after_five_tries() -> None:
    told: list[str] = []
    reached = Reached(ends_at(7))
    assert LateWorkers(told.append).follow(lambda: Query(TOO_LATE), reached.look, pause=0) is TOO_LATE
    assert len(told) == 5 and not reached.is_whole()


def test_a_query_that_failed_for_another_reason_is_not_started_again() -> None:
    started = [Query(RuntimeError("data loss"))]
    failure = LateWorkers(print).follow(started.pop, lambda query: False, pause=0)
    assert str(failure) == "data loss"


def test_a_query_that_spark_does_not_start_has_failed_and_what_is_ours_to_say_is_raised() -> None:
    def start(error: Exception) -> Any:
        raise error

    refused = ValueError("Error parsing 'soon' to interval")
    assert LateWorkers(print).follow(lambda: start(refused), lambda query: False, pause=0) is refused
    with pytest.raises(ConfigError, match="ours"):
        LateWorkers(print).follow(lambda: start(ConfigError("ours")), lambda query: False, pause=0)


def test_a_query_that_has_read_all_goes_on_until_the_last_days_are_written() -> None:
    reached = Reached(ends_at(7))
    assert not reached.look(Query(None, 7, day="2013-12-30T00:00:00.000Z"))  # type: ignore[arg-type]
    assert reached.look(Query(None, 7))  # type: ignore[arg-type]


def test_a_query_without_its_demo_ends() -> None:
    lines: Queue[str | None] = Queue()
    lines.put(None)
    reached, query = Reached(lines), Query(None, 7)
    assert LateWorkers(print).follow(lambda: query, reached.look, pause=0) is None
    assert reached.alone and query.stopped


def test_a_call_that_failed_for_a_late_worker_is_made_again_and_no_other() -> None:
    outcomes: list[Any] = [TOO_LATE, TOO_LATE, 3, ValueError("wrong option"), 4]

    def act() -> int:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    late = LateWorkers(print)
    assert late.retry(act) == 3 and late.seen == 2
    with pytest.raises(ValueError, match="wrong option"):
        late.retry(act)
    assert outcomes == [4]
