"""Checks whether a log can be what clients saw: the anomalies that Jepsen looks for in Kafka, and some more.

    verdict = check(history)
    verdict.ok, verdict.counts, verdict.tell()

The contents of a partition are put together from every acknowledgement and every read; then each invariant is
one pass over them.  A history may have gaps: records whose offset nobody knows, offsets without a record
(control batches, compaction, transactions that were given up), consumers that started in the middle.  If a
history says too little, the checker claims nothing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from barnabas.sim.cluster.checker_knowledge import KnownEnds, known_highs
from barnabas.sim.cluster.checker_words import Words
from barnabas.sim.cluster.history import (
    ASSIGNED,
    COMMITTED,
    FINAL,
    NO_KEY,
    NO_OFFSET,
    NO_TRANSACTION,
    History,
    Outcome,
)

__all__ = ["KINDS", "Anomaly", "Verdict", "check"]

KINDS = {
    "lost write": "an acknowledged record was not there for those who read past its offset",
    "unseen": "an acknowledged record lies beyond the end that the last readers found",
    "vanished": "a record that somebody read was not there any more for the last readers",
    "duplicate": "one record stands at two offsets, though its producer repeats nothing",
    "inconsistent offset": "one offset holds two records",
    "aborted read": "a record was read whose write surely failed, or whose transaction was aborted",
    "precommitted read": "a reader of committed transactions got a record before its commit was asked for",
    "torn transaction": "of a transaction one part is to be read at the end, and another is not",
    "phantom": "a record was read that nobody sent, or not there, or that was sent later",
    "nonmonotonic poll": "a consumer's next poll went back",
    "int-nonmonotonic poll": "the records of one poll go back",
    "poll skip": "a consumer's next poll left out a record",
    "int-poll skip": "a poll left out a record between two others",
    "nonmonotonic send": "of two records of one producer the later one stands first",
    "overtaken": "a record was put below an offset that somebody knew before it was sent",
    "end went back": "a partition ended, for one process, before what that process knew of",
    "beyond the high watermark": "a consumer got a record that its leader did not call committed",
}
"""Every anomaly, in a sentence."""

EXPLAINED = 10
"""Of each kind as many are explained; all are counted."""

_SHIFT = 48
_MASK = (1 << _SHIFT) - 1


class Anomaly(NamedTuple):
    """One thing that cannot be, and the operations that show it."""

    kind: str
    says: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.says}"


class Verdict:
    """What a history came to.  `counts`: anomalies by kind."""

    def __init__(self, history: History) -> None:
        self.anomalies: list[Anomaly] = []
        self.counts: Counter[str] = Counter()
        outcomes = Counter(history.sends.outcome)
        self.acknowledged = outcomes[Outcome.OK]
        self.failed = outcomes[Outcome.FAILED]
        self.unknown = outcomes[Outcome.UNKNOWN]
        self.polls = len(history.polls)
        self.records = len(history.polls.offset)
        self.partitions = len(history.partitions)

    def __repr__(self) -> str:
        return f"<Verdict {dict(self.counts) or 'ok'}>"

    @property
    def ok(self) -> bool:
        return not self.counts

    def tell(self) -> Iterator[str]:
        """For people."""
        yield (
            f"{self.acknowledged} writes acknowledged, {self.failed} failed, {self.unknown} of unknown fate; "
            f"{self.records} records read in {self.polls} polls of {self.partitions} partitions"
        )
        if self.ok:
            yield "nothing acknowledged is lost, twice, reordered or changed"
        for kind, count in self.counts.items():
            yield f"{count} x {kind}: {KINDS[kind]}"
            yield from (f"  {anomaly.says}" for anomaly in self.anomalies if anomaly.kind == kind)


def check(history: History) -> Verdict:
    """Look for every anomaly of KINDS.  Raises ValueError where a history contradicts itself (one value sent
    twice)."""
    return _Checker(history).run()


class _Checker:
    """The passes share what the first two find out.

    A slot is a partition and an offset in one number; `slots` sorted is the order of the logs.
    """

    def __init__(self, history: History) -> None:
        self.history = history
        self.words = Words(history)
        self.verdict = Verdict(history)
        self.sent: dict[int, int] = {}
        """Value -> its send."""
        self.held: dict[int, int] = {}
        """Slot -> the value that was first known there."""
        self.place: dict[int, int] = {}
        """Value -> the slot where it was first known."""
        self.seen: dict[int, int] = {}
        """Value -> the poll that first brought it."""
        self.seen_committed: dict[int, int] = {}
        self.last_seen: set[int] = set()
        """What the last readers read."""
        self.covered: dict[int, list[tuple[int, int]]] = {}
        """Partition -> the ranges that consumers passed over."""
        self.gaps: list[tuple[int, int, int, bool]] = []
        self.slots: list[int] = []
        self.newest: dict[tuple[int, int], int] = {}
        self.disputed: set[int] = set()
        """Slots that hold two values."""
        self.whole = bool(history.read_to_the_end)

    def run(self) -> Verdict:
        self._sends()
        self._polls()
        self.slots = sorted(self.held)
        self._find_newest()
        self._phantoms()
        self._gaps()
        self._missing()
        self._vanished()
        self._send_order()
        self._overtaken()
        self._ends()
        self._transactions()
        return self.verdict

    def claim(self, kind: str, says: str) -> None:
        assert kind in KINDS
        verdict = self.verdict
        verdict.counts[kind] += 1
        if verdict.counts[kind] <= EXPLAINED:
            verdict.anomalies.append(Anomaly(kind, says))

    # ---- what the logs hold ------------------------------------------------------------------------------

    def _sends(self) -> None:
        sends = self.history.sends
        sent = self.sent
        rows = zip(sends.value, sends.partition, sends.offset, sends.outcome, strict=True)
        ok = int(Outcome.OK)
        for number, (value, partition, offset, outcome) in enumerate(rows):
            if value in sent:
                raise ValueError(f"the value {value} is sent twice: the history is of no use")
            sent[value] = number
            if outcome == ok and offset >= 0:
                self._put(partition << _SHIFT | offset, value, None)

    def _put(self, slot: int, value: int, poll: int | None) -> None:
        """Somebody says that this value stands there."""
        known = self.held.setdefault(slot, value)
        if known != value:
            self.disputed.add(slot)
            self.claim(
                "inconsistent offset", self.words.two_values(slot >> _SHIFT, slot & _MASK, known, value)
            )
        where = self.place.setdefault(value, slot)
        if where != slot and not self._may_repeat(value):
            self.claim("duplicate", self.words.two_places(value, where & _MASK, slot & _MASK, poll))

    def _may_repeat(self, value: int) -> bool:
        number = self.sent.get(value)
        return number is not None and self.history.processes[self.history.sends.process[number]].repeats

    def _polls(self) -> None:
        polls, held, place = self.history.polls, self.held, self.place
        offsets, values = polls.offset, polls.value
        lasts: dict[tuple[int, int], int] = {}
        chains: dict[tuple[int, int], list[int]] = {}
        told: set[tuple[int, int]] = set()
        for poll in self._in_time():
            partition, flags = polls.partition[poll], polls.flags[poll]
            chain = (polls.process[poll], partition)
            position = polls.position[poll]
            last = lasts.get(chain, NO_OFFSET - 1)
            if flags & ASSIGNED or last < NO_OFFSET:
                last = position - 1 if position >= 0 else NO_OFFSET - 1
                self._cover(chain, chains, position)
            rows = polls.rows(poll)
            shift = partition << _SHIFT
            before = last
            for row in rows:
                offset, value = offsets[row], values[row]
                slot = shift | offset
                if held.get(slot) != value or place.get(value) != slot:
                    if (slot, value) not in told:
                        self._put(slot, value, poll)
                        if held[slot] != value or place[value] != slot:
                            told.add((slot, value))
                if offset != last + 1 and last >= NO_OFFSET:
                    inside = row != rows.start
                    if offset <= last:
                        kind = "int-nonmonotonic poll" if inside else "nonmonotonic poll"
                        self.claim(kind, self.words.went_back(poll, last, offset))
                    else:
                        self.gaps.append((poll, last, offset, inside))
                last = offset
            self._note(poll, rows, flags)
            lasts[chain] = last
            end = max(last, before) + 1 if rows else max(position, before + 1)
            if end >= 0:
                self._extend(chain, chains, end)

    def _in_time(self) -> Iterator[int] | range:
        """The polls in the order in which they came back: of one process that is the order it meant."""
        completed = self.history.polls.completed
        everything = range(len(completed))
        if all(completed[n] <= completed[n + 1] for n in range(len(completed) - 1)):
            return everything
        return iter(sorted(everything, key=completed.__getitem__))

    def _note(self, poll: int, rows: range, flags: int) -> None:
        polls = self.history.polls
        values = polls.value[rows.start : rows.stop]
        seen = self.seen
        for value in values:
            if value not in seen:
                seen[value] = poll
        if flags & FINAL:
            self.last_seen.update(values)
        if flags & COMMITTED and self.history.transactions:
            for value in values:
                self.seen_committed.setdefault(value, poll)
        mark = polls.high_watermark[poll]
        if rows and mark >= 0 and polls.offset[rows.stop - 1] >= mark:
            self.claim("beyond the high watermark", self.words.beyond(poll, polls.offset[rows.stop - 1]))

    def _cover(self, chain: tuple[int, int], chains: dict[tuple[int, int], list[int]], start: int) -> None:
        """A consumer begins at a position of its own choice."""
        if start < 0:
            chains.pop(chain, None)
            return
        chains[chain] = made = [start, start]
        self.covered.setdefault(chain[1], []).append(made)  # type: ignore[arg-type]  # grows until the end

    def _extend(self, chain: tuple[int, int], chains: dict[tuple[int, int], list[int]], end: int) -> None:
        made = chains.get(chain)
        if made is not None and end > made[1]:
            made[1] = end

    # ---- what may be missing -----------------------------------------------------------------------------

    def _find_newest(self) -> None:
        """In compacted partitions: the newest offset of each key."""
        sends = self.history.sends
        if not self.history.compacted:
            return
        for slot, value in self.held.items():
            number = self.sent.get(value)
            if number is not None and sends.key[number] != NO_KEY:
                key = (slot >> _SHIFT, sends.key[number])
                self.newest[key] = max(self.newest.get(key, -1), slot)

    def _excused(self, slot: int, value: int) -> bool:
        """Whether a record that was there may be gone: deleted, compacted, or not committed."""
        history, partition = self.history, slot >> _SHIFT
        if slot & _MASK < history.deletions.get(partition, 0):
            return True
        number = self.sent.get(value)
        if number is None:
            return False
        if partition in history.compacted:
            key = history.sends.key[number]
            if key != NO_KEY and self.newest.get((partition, key), -1) > slot:
                return True
        within = history.sends.transaction[number]
        if within == NO_TRANSACTION:
            return False
        ending = history.transactions[within]
        return not (ending.commits and ending.outcome == Outcome.OK)

    def _phantoms(self) -> None:
        """What was read must have been sent, there and before, and must not have failed."""
        sends, polls = self.history.sends, self.history.polls
        failed = int(Outcome.FAILED)
        for value, poll in self.seen.items():
            number = self.sent.get(value)
            if number is None:
                self.claim("phantom", self.words.never_sent(value, poll))
            elif sends.partition[number] != polls.partition[poll]:
                self.claim("phantom", self.words.sent_elsewhere(number, poll))
            elif sends.outcome[number] == failed:
                self.claim("aborted read", self.words.read_though_failed(number, poll))
            elif sends.invoked[number] > polls.completed[poll]:
                self.claim("phantom", self.words.read_before(number, poll))

    def _gaps(self) -> None:
        """Between two records that a consumer got one after the other, none is left out."""
        slots, partitions = self.slots, self.history.polls.partition
        for poll, last, offset, inside in self.gaps:
            shift = partitions[poll] << _SHIFT
            at = bisect_right(slots, shift | last) if last >= 0 else bisect_left(slots, shift)
            while at < len(slots) and slots[at] < (shift | offset):
                value = self.held[slots[at]]
                if self._others_have(value, poll) and not self._excused(slots[at], value):
                    kind = "int-poll skip" if inside else "poll skip"
                    self.claim(kind, self.words.left_out(poll, last, offset, slots[at] & _MASK, value))
                    break
                at += 1

    def _others_have(self, value: int, poll: int) -> bool:
        """Whether other readers got this value: then this poll left it out; else it is lost, or vanished."""
        if value not in self.seen or value not in self.sent:
            return False
        polls = self.history.polls
        final = polls.flags[poll] & FINAL and polls.partition[poll] in self.history.read_to_the_end
        return not final or value in self.last_seen

    def _missing(self) -> None:
        """Acknowledged, and nobody ever read it, though somebody read past it."""
        history = self.history
        sends, seen, ok = history.sends, self.seen, int(Outcome.OK)
        covered = {partition: _union(ranges) for partition, ranges in self.covered.items()}
        for value, number in self.sent.items():
            if sends.outcome[number] != ok or value in seen:
                continue
            partition, offset = sends.partition[number], sends.offset[number]
            if self._excused(partition << _SHIFT | max(offset, 0), value):
                continue
            whole = history.read_to_the_end.get(partition)
            if offset < 0:
                if whole is not None:
                    self.claim("lost write", self.words.nowhere(number))
                continue
            ranges = covered.get(partition, [])
            at = bisect_right(ranges, (offset, _MASK)) - 1
            if at >= 0 and offset < ranges[at][1]:
                self.claim("lost write", self.words.lost(number))
            elif whole is not None and offset < whole[0]:
                self.claim("lost write", self.words.before_the_start(number, whole[0]))
            elif whole is not None and offset >= whole[1]:
                self.claim("unseen", self.words.unseen(number, whole[1]))
            elif whole is not None:
                self.claim("lost write", self.words.nowhere(number))

    def _vanished(self) -> None:
        """Somebody read it, and the last readers, who read all there is, did not."""
        history, last_seen = self.history, self.last_seen
        if not self.whole:
            return
        for value, poll in self.seen.items():
            if value in last_seen or value not in self.sent:
                continue
            slot = self.place[value]
            if (
                slot in self.disputed
                or slot >> _SHIFT not in history.read_to_the_end
                or self._excused(slot, value)
            ):
                continue
            self.claim("vanished", self.words.vanished(value, slot & _MASK, poll, self.held[slot]))

    # ---- order -------------------------------------------------------------------------------------------

    def _send_order(self) -> None:
        history = self.history
        sends, ok = history.sends, int(Outcome.OK)
        lasts: dict[tuple[int, int], tuple[int, int]] = {}
        rows = zip(sends.process, sends.partition, sends.offset, sends.outcome, strict=True)
        processes = history.processes
        for number, (process, partition, offset, outcome) in enumerate(rows):
            if outcome != ok or offset < 0:
                continue
            chain = (process, partition)
            last = lasts.get(chain)
            if last is not None and offset <= last[0] and not processes[process].repeats:
                self.claim("nonmonotonic send", self.words.sent_back(last[1], number))
            lasts[chain] = (offset, number)

    def _overtaken(self) -> None:
        """What is known before a record is sent lies below it."""
        sends = self.history.sends
        times, highs = known_highs(self.history)
        for value, slot in self.place.items():
            number = self.sent.get(value)
            if number is None:
                continue
            partition = slot >> _SHIFT
            at = bisect_left(times.get(partition, ()), sends.invoked[number]) - 1
            if at >= 0 and highs[partition][at] >= slot & _MASK and sends.partition[number] == partition:
                self.claim("overtaken", self.words.overtaken(number, slot & _MASK, highs[partition][at]))

    def _ends(self) -> None:
        """The end that a process is told is not before what it knows: its own writes, reads, and earlier ends."""
        ends = sorted(self.history.ends, key=lambda end: end.completed)
        if not ends:
            return
        own = KnownEnds(self.history)
        for end in ends:
            known = own.before(end.process, end.partition, end.invoked)
            if end.offset < known:
                self.claim("end went back", self.words.went_short(end, known))

    # ---- transactions ------------------------------------------------------------------------------------

    def _transactions(self) -> None:
        history = self.history
        if not history.transactions:
            return
        sends, polls = history.sends, history.polls
        for value, poll in self.seen_committed.items():
            number = self.sent.get(value)
            if number is None or (within := sends.transaction[number]) == NO_TRANSACTION:
                continue
            ending = history.transactions[within]
            aborted = ending.commits is False or (ending.commits and ending.outcome == Outcome.FAILED)
            if aborted and not (ending.commits is False and ending.outcome == Outcome.FAILED):
                self.claim("aborted read", self.words.read_though_aborted(number, poll))
            elif ending.commits is None or polls.completed[poll] < ending.invoked:
                self.claim("precommitted read", self.words.read_before_commit(number, poll))
        self._torn()

    def _torn(self) -> None:
        """Every record of a transaction that was written is there at the end, or none is."""
        history, sends = self.history, self.history.sends
        there: dict[int, int] = {}
        missing: dict[int, int] = {}
        for value, number in self.sent.items():
            within = sends.transaction[number]
            if within == NO_TRANSACTION or sends.outcome[number] != Outcome.OK:
                continue
            if sends.partition[number] not in history.read_to_the_end:
                continue
            if sends.offset[number] < history.deletions.get(sends.partition[number], 0):
                continue
            (there if value in self.last_seen else missing)[within] = number
        for within in sorted(there.keys() & missing.keys()):
            if not self._excused(self.place[sends.value[missing[within]]], sends.value[missing[within]]) or (
                history.transactions[within].outcome == Outcome.UNKNOWN
            ):
                self.claim("torn transaction", self.words.torn(within, there[within], missing[within]))


def _union(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """These ranges, sorted, none touching another."""
    united: list[tuple[int, int]] = []
    for start, end in sorted((start, end) for start, end in ranges if end > start):
        if united and start <= united[-1][1]:
            united[-1] = (united[-1][0], max(united[-1][1], end))
        else:
            united.append((start, end))
    return united
