"""The checker of isolation: what readers of committed records saw of each transaction (T2 to T4).

It compares three accounts that are made apart: what producers were told, what the last readers of committed
records got, and which position the group had at the end.

* T2, isolated: no reader was told that an acknowledged record is stable (below the last stable offset) before
  the commit of its transaction was asked for.  (A coordinator may abort one whose time is over, or that another
  producer takes the place of, before its producer asks for that too.)
* T3, whole: at the end all acknowledged records of a transaction are there, or none; all of one that was
  committed, none of one that was aborted or never ended, each once.  The outcome of an end that nobody answered
  is unknown, and still one for all of its records.  A batch that came late is never there.
* T4, with its position: the group's position is that of the last transaction whose records are there, and
  nobody was told a position before the end of its transaction was asked for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping

from barnabas.sim.cluster.clients.transactions.reader import StableOffsets
from barnabas.sim.cluster.clients.transactions.record import Attempt, Written
from barnabas.sim.kernel.report import InvariantViolation

__all__ = ["check_isolation", "check_position", "check_told"]

Deleted = Callable[[Written], bool]


def check_isolation(
    attempts: Iterable[Attempt],
    times: Mapping[int, int],
    stable: StableOffsets,
    deleted: Deleted,
) -> None:
    """Judge.  `times`: how often the last readers got each value.  Raises InvariantViolation."""
    for attempt in attempts:
        _whole(attempt, times, deleted)
        if attempt.settled:
            for written in attempt.records:
                _isolated(attempt, written, stable)


def _whole(attempt: Attempt, times: Mapping[int, int], deleted: Deleted) -> None:
    left = [written for written in attempt.records if not deleted(written)]
    there = [written for written in left if times.get(written.value, 0)]
    for written in there:
        if times[written.value] > 1:
            raise InvariantViolation(
                "T3", f"{_at(written)} of {attempt} is there {times[written.value]} times"
            )
    if there and len(there) < len(left):
        missing = next(written for written in left if written not in there)
        raise InvariantViolation(
            "T3", f"{attempt} is torn: {_at(there[0])} is there at the end, and {_at(missing)} is not"
        )
    if attempt.settled and left and not there:
        raise InvariantViolation("T3", f"{attempt} is lost: {_at(left[0])} is not there at the end")
    if there and (attempt.settled is False or not attempt.commits):
        raise InvariantViolation("T3", f"{_at(there[0])} of {attempt} is there at the end")
    for value in attempt.late:
        if times.get(value, 0):
            raise InvariantViolation("T3", f"record {value} came late for {attempt} and is there at the end")


def _isolated(attempt: Attempt, written: Written, stable: StableOffsets) -> None:
    rows = stable.seen.get(written.where, [])
    if written.offset < 0:
        return
    first = bisect_left(rows, written.offset + 1, key=lambda row: row[1])
    if first < len(rows) and rows[first][0] < attempt.asked and rows[first][2] <= written.offset:
        at, end, _ = rows[first]
        raise InvariantViolation(
            "T2",
            f"{_at(written)} of {attempt} was open, and at {at:.3f} s its partition was stable up to {end}",
        )


def check_position(
    group: str, attempts: Iterable[Attempt], there: Callable[[int], bool], position: int, deleted: Deleted
) -> None:
    """The group's committed `position` (-1: none) against its transactions.  Raises InvariantViolation.

    A transaction without a record that is left, and without a known outcome, may count or not.
    """
    least, may = -1, {-1}
    for attempt in sorted(attempts, key=lambda one: one.number):
        if not attempt.position:
            continue
        left = [written for written in attempt.records if not deleted(written)]
        took = attempt.settled
        if took is None and left:
            took = there(left[0].value)
        if took is None and attempt.commits:
            may.add(attempt.position)
        elif took:
            least = attempt.position
            may = {least}
    if position not in may:
        raise InvariantViolation(
            "T4", f"{group} has the position {position}; its last transaction that took place has {least}"
        )


def check_told(group: str, attempts: Iterable[Attempt], told: Iterable[tuple[float, int]]) -> None:
    """Who asked for the group's position while it ran: `told`, (true seconds, position).

    Raises InvariantViolation when a position was told before its transaction could count.
    """
    by_position = {attempt.number: attempt for attempt in attempts}
    for at, position in told:
        if position < 0:
            continue
        attempt = by_position.get(position)
        if attempt is None or not attempt.commits or attempt.settled is False or attempt.asked > at:
            raise InvariantViolation("T4", f"at {at:.3f} s {group} had the position {position} of {attempt}")


def _at(written: Written) -> str:
    where = f"{written.where.topic}-{written.where.partition}"
    return f"record {written.value} ({where} offset {written.offset})"
