"""What clients knew, and when: the checker compares it with what was written and told afterwards."""

from __future__ import annotations

from bisect import bisect_left

from barnabas.sim.cluster.history import History, Outcome

__all__ = ["KnownEnds", "known_highs"]


def known_highs(history: History) -> tuple[dict[int, list[float]], dict[int, list[int]]]:
    """By partition: at which times the highest known offset rose, and what it was then."""
    sends, polls = history.sends, history.polls
    known: dict[int, list[tuple[float, int]]] = {}
    ok = int(Outcome.OK)
    for partition, offset, outcome, at in zip(
        sends.partition, sends.offset, sends.outcome, sends.completed, strict=True
    ):
        if outcome == ok and offset >= 0:
            known.setdefault(partition, []).append((at, offset))
    for poll in range(len(polls)):
        rows = polls.rows(poll)
        if rows:
            known.setdefault(polls.partition[poll], []).append(
                (polls.completed[poll], polls.offset[rows.stop - 1])
            )
    times: dict[int, list[float]] = {}
    highs: dict[int, list[int]] = {}
    for partition, events in known.items():
        events.sort()
        high = -1
        rising, tops = times.setdefault(partition, []), highs.setdefault(partition, [])
        for at, offset in events:
            if offset > high:
                high = offset
                rising.append(at)
                tops.append(high)
    return times, highs


class KnownEnds:
    """What each process itself knows of the end of a partition, over time."""

    def __init__(self, history: History) -> None:
        self._events: dict[tuple[int, int], list[tuple[float, int]]] = {}
        self._highs: dict[tuple[int, int], list[tuple[float, int]]] = {}
        asking = {end.process for end in history.ends}
        sends, polls = history.sends, history.polls
        for number, process in enumerate(sends.process):
            if process in asking and sends.outcome[number] == Outcome.OK and sends.offset[number] >= 0:
                where = (process, sends.partition[number])
                self._add(where, sends.completed[number], sends.offset[number] + 1)
        for poll, process in enumerate(polls.process):
            if process in asking and (rows := polls.rows(poll)):
                where = (process, polls.partition[poll])
                self._add(where, polls.completed[poll], polls.offset[rows.stop - 1] + 1)
        for end in history.ends:
            self._add((end.process, end.partition), end.completed, end.offset)
        for where, events in self._events.items():
            events.sort()
            high = -1
            highs = self._highs[where] = []
            for at, offset in events:
                high = max(high, offset)
                highs.append((at, high))

    def _add(self, where: tuple[int, int], at: float, end: int) -> None:
        self._events.setdefault(where, []).append((at, end))

    def before(self, process: int, partition: int, at: float) -> int:
        """The least end that this process may be told by then; -1: any."""
        highs = self._highs.get((process, partition), [])
        known = bisect_left(highs, (at, -1)) - 1
        return highs[known][1] if known >= 0 else -1
