"""What clients did and saw, in columns: a million operations fit into some ten million bytes.

A send is one record that a producer wanted written; what is not said to have succeeded or surely failed is
unknown, as a producer that got no answer leaves it.  A poll is what one fetch of one partition brought.
Values are unique: by its value a record is known again wherever it turns up.  Times are seconds of one
clock that all clients share.

As text a history is JSON lines, one operation each, so that clients in other processes and languages can
write their own and `cat` puts them together (`load`).
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from math import inf
from typing import Any, NamedTuple, TextIO

__all__ = ["History", "Outcome", "Process", "dump", "load"]

NOBODY = -1
NO_OFFSET = -1
NO_KEY = -1
NO_TRANSACTION = -1

FINAL, COMMITTED, ASSIGNED = 1, 2, 4
"""What a poll may be besides: part of the last reading of everything; of committed transactions only; the
first since its process chose its position."""


class Outcome(IntEnum):
    """What became of an operation."""

    UNKNOWN = 0
    OK = 1
    FAILED = 2


class Process(NamedTuple):
    """One run of a client: what it does has an order.  `repeats`: it may write a record twice, and out of
    order, as a producer without idempotence does."""

    name: str
    repeats: bool = False


class Sends:
    """One row per record that was to be written, in the order in which its process asked for it."""

    __slots__ = (
        "completed",
        "invoked",
        "key",
        "offset",
        "outcome",
        "partition",
        "process",
        "transaction",
        "value",
    )

    def __init__(self) -> None:
        self.process = array("i")
        self.partition = array("i")
        self.value = array("q")
        self.key = array("q")
        self.offset = array("q")
        self.invoked = array("d")
        self.completed = array("d")
        self.outcome = array("b")
        self.transaction = array("i")

    def __len__(self) -> int:
        return len(self.value)


class Polls:
    """One row per partition of an answer; its records are rows [first, the next poll's first) of `offset`
    and `value`."""

    __slots__ = (
        "completed",
        "first",
        "flags",
        "high_watermark",
        "invoked",
        "offset",
        "partition",
        "position",
        "process",
        "value",
    )

    def __init__(self) -> None:
        self.process = array("i")
        self.partition = array("i")
        self.position = array("q")
        self.high_watermark = array("q")
        self.invoked = array("d")
        self.completed = array("d")
        self.flags = array("b")
        self.first = array("q")
        self.offset = array("q")
        self.value = array("q")

    def __len__(self) -> int:
        return len(self.process)

    def rows(self, poll: int) -> range:
        """Its records."""
        end = self.first[poll + 1] if poll + 1 < len(self.first) else len(self.offset)
        return range(self.first[poll], end)


class End(NamedTuple):
    """A process asked where a partition ends."""

    process: int
    partition: int
    offset: int
    invoked: float
    completed: float


class Transaction(NamedTuple):
    """A transaction and how its producer ended it: `commits` None while it did not."""

    process: int
    commits: bool | None = None
    invoked: float = 0.0
    completed: float = 0.0
    outcome: Outcome = Outcome.UNKNOWN


class History:
    """What clients did.  Rows are added as things happen."""

    def __init__(self) -> None:
        self.processes: list[Process] = []
        self.partitions: list[str] = []
        self.sends = Sends()
        self.polls = Polls()
        self.ends: list[End] = []
        self.transactions: list[Transaction] = []
        self.deletions: dict[int, int] = {}
        """By partition: below this offset records were deleted on purpose."""
        self.read_to_the_end: dict[int, tuple[int, int]] = {}
        """By partition: where the log began and ended when the last readers had read all of it."""
        self.compacted: set[int] = set()
        """Partitions in which a later record of the same key may take away an earlier one."""
        self._partition_ids: dict[str, int] = {}
        self._chosen: set[tuple[int, int]] = set()

    def __repr__(self) -> str:
        return f"<History sends={len(self.sends)} polls={len(self.polls)} records={len(self.polls.offset)}>"

    def __len__(self) -> int:
        """Operations: every send, every record that was read, every other question."""
        return len(self.sends) + max(len(self.polls), len(self.polls.offset)) + len(self.ends)

    # ---- who and where -----------------------------------------------------------------------------------

    def process(self, name: str, *, repeats: bool = False) -> int:
        """A new process."""
        self.processes.append(Process(name, repeats))
        return len(self.processes) - 1

    def partition(self, name: str) -> int:
        """The number of a partition, such as "topic-0"."""
        number = self._partition_ids.get(name)
        if number is None:
            number = self._partition_ids[name] = len(self.partitions)
            self.partitions.append(name)
        return number

    # ---- producers ---------------------------------------------------------------------------------------

    def send(
        self,
        process: int,
        partition: str,
        value: int,
        invoked: float,
        *,
        key: int = NO_KEY,
        transaction: int = NO_TRANSACTION,
    ) -> int:
        """A record is to be written; returns its number.  Its outcome is unknown until it is said."""
        sends = self.sends
        sends.process.append(process)
        sends.partition.append(self.partition(partition))
        sends.value.append(value)
        sends.key.append(key)
        sends.offset.append(NO_OFFSET)
        sends.invoked.append(invoked)
        sends.completed.append(invoked)
        sends.outcome.append(Outcome.UNKNOWN)
        sends.transaction.append(transaction)
        return len(sends) - 1

    def acknowledged(self, send: int, offset: int, at: float) -> None:
        """It is written, at this offset (-1: nobody said where)."""
        self.sends.outcome[send] = Outcome.OK
        self.sends.offset[send] = offset
        self.sends.completed[send] = at

    def failed(self, send: int, at: float) -> None:
        """It was surely not written."""
        self.sends.outcome[send] = Outcome.FAILED
        self.sends.completed[send] = at

    def given_up(self, send: int, at: float) -> None:
        """Nobody knows, and nobody asks any more."""
        self.sends.completed[send] = at

    def begin(self, process: int) -> int:
        """A transaction begins; returns its number."""
        self.transactions.append(Transaction(process))
        return len(self.transactions) - 1

    def ending(self, transaction: int, commits: bool, invoked: float) -> None:
        """Its producer asks for its end."""
        known = self.transactions[transaction]
        self.transactions[transaction] = known._replace(commits=commits, invoked=invoked, completed=invoked)

    def ended(self, transaction: int, outcome: Outcome, at: float) -> None:
        """What became of that."""
        known = self.transactions[transaction]
        self.transactions[transaction] = known._replace(outcome=outcome, completed=at)

    # ---- consumers ---------------------------------------------------------------------------------------

    def assigned(self, process: int, partition: str) -> None:
        """It chose its position anew (assigned, sought, rebalanced): what it read before means nothing now."""
        self._chosen.add((process, self.partition(partition)))

    def poll(
        self,
        process: int,
        partition: str,
        position: int,
        invoked: float,
        completed: float,
        records: Sequence[tuple[int, int]],
        *,
        high_watermark: int = NO_OFFSET,
        final: bool = False,
        committed: bool = False,
    ) -> int:
        """It asked for `position` (-1: it does not know) and got (offset, value) of these records."""
        polls, number = self.polls, self.partition(partition)
        flags = FINAL * final | COMMITTED * committed
        if (process, number) in self._chosen:
            self._chosen.discard((process, number))
            flags |= ASSIGNED
        polls.process.append(process)
        polls.partition.append(number)
        polls.position.append(position)
        polls.high_watermark.append(high_watermark)
        polls.invoked.append(invoked)
        polls.completed.append(completed)
        polls.flags.append(flags)
        polls.first.append(len(polls.offset))
        for offset, value in records:
            polls.offset.append(offset)
            polls.value.append(value)
        return len(polls) - 1

    def end(self, process: int, partition: str, offset: int, invoked: float, completed: float) -> None:
        """It asked where the partition ends, for consumers."""
        self.ends.append(End(process, self.partition(partition), offset, invoked, completed))

    # ---- what was done on purpose ------------------------------------------------------------------------

    def deleted(self, partition: str, before: int) -> None:
        """Somebody had the records below `before` deleted, or retention did."""
        number = self.partition(partition)
        self.deletions[number] = max(before, self.deletions.get(number, 0))

    def compacts(self, partition: str) -> None:
        """In this partition only the last record of a key is kept."""
        self.compacted.add(self.partition(partition))

    def finished(self, partition: str, start: int, end: int) -> None:
        """The last readers (`final` polls) have read all there is: [start, end)."""
        self.read_to_the_end[self.partition(partition)] = (start, end)


# ---- as text ---------------------------------------------------------------------------------------------


def dump(history: History, file: TextIO) -> None:
    """Write it as JSON lines."""
    for line in _documents(history):
        file.write(json.dumps(line, separators=(",", ":")))
        file.write("\n")


def _documents(history: History) -> Iterator[dict[str, Any]]:
    names = history.partitions
    for number, process in enumerate(history.processes):
        yield {"op": "process", "process": number, "name": process.name, "repeats": process.repeats}
    for number, one in enumerate(history.transactions):
        yield {"op": "transaction", "transaction": number, **one._asdict()}
    sends = history.sends
    for n in range(len(sends)):
        line: dict[str, Any] = {
            "op": "send",
            "process": sends.process[n],
            "partition": names[sends.partition[n]],
            "value": sends.value[n],
            "invoked": sends.invoked[n],
            "completed": sends.completed[n],
            "outcome": Outcome(sends.outcome[n]).name.lower(),
            "offset": sends.offset[n],
        }
        if sends.key[n] != NO_KEY:
            line["key"] = sends.key[n]
        if sends.transaction[n] != NO_TRANSACTION:
            line["transaction"] = sends.transaction[n]
        yield line
    polls = history.polls
    for n in range(len(polls)):
        flags = polls.flags[n]
        yield {
            "op": "poll",
            "process": polls.process[n],
            "partition": names[polls.partition[n]],
            "position": polls.position[n],
            "high_watermark": polls.high_watermark[n],
            "invoked": polls.invoked[n],
            "completed": polls.completed[n],
            "records": [[polls.offset[row], polls.value[row]] for row in polls.rows(n)],
            **{name: True for name, flag in _FLAGS.items() if flags & flag},
        }
    for end in history.ends:
        yield {"op": "end", **end._asdict(), "partition": names[end.partition]}
    for partition, before in history.deletions.items():
        yield {"op": "deleted", "partition": names[partition], "before": before}
    for partition in sorted(history.compacted):
        yield {"op": "compacts", "partition": names[partition]}
    for partition, (start, stop) in history.read_to_the_end.items():
        yield {"op": "finished", "partition": names[partition], "start": start, "end": stop}


_FLAGS = {"final": FINAL, "committed": COMMITTED, "assigned": ASSIGNED}


def load(lines: Iterable[str]) -> History:
    """Read JSON lines.  Processes and transactions are known by the numbers they are given there; a number
    may be any, also one that no `process` line names.  Raises ValueError at a line that is none of ours."""
    return _Loader().load(lines)


class _Loader:
    def __init__(self) -> None:
        self.history = History()
        self.processes: dict[int | str, int] = {}
        self.transactions: dict[int | str, int] = {}

    def load(self, lines: Iterable[str]) -> History:
        for number, text in enumerate(lines, 1):
            if not text.strip():
                continue
            try:
                line = json.loads(text)
                getattr(self, "_" + line.pop("op"))(**line)
            except (ValueError, TypeError, AttributeError, KeyError) as error:
                raise ValueError(f"line {number} is no operation: {error}: {text[:100]}") from error
        return self.history

    def _who(self, name: int | str) -> int:
        number = self.processes.get(name)
        if number is None:
            number = self.processes[name] = self.history.process(f"process {name}")
        return number

    def _process(self, process: int | str, name: str = "", repeats: bool = False) -> None:
        self.history.processes[self._who(process)] = Process(name or f"process {process}", repeats)

    def _transaction(self, transaction: int | str, process: int | str, **ending: Any) -> None:
        number = self._in(transaction, process)
        if ending:
            ending["outcome"] = Outcome(ending.get("outcome", 0))
            self.history.transactions[number] = Transaction(self._who(process), **ending)

    def _in(self, transaction: int | str, process: int | str) -> int:
        number = self.transactions.get(transaction)
        if number is None:
            number = self.transactions[transaction] = self.history.begin(self._who(process))
        return number

    def _send(
        self,
        process: int | str,
        partition: str,
        value: int,
        invoked: float,
        completed: float = inf,
        outcome: str = "unknown",
        offset: int = NO_OFFSET,
        key: int = NO_KEY,
        transaction: int | str = NO_TRANSACTION,
    ) -> None:
        within = NO_TRANSACTION if transaction == NO_TRANSACTION else self._in(transaction, process)
        number = self.history.send(self._who(process), partition, value, invoked, key=key, transaction=within)
        self.history.sends.outcome[number] = Outcome[outcome.upper()]
        self.history.sends.offset[number] = offset
        self.history.sends.completed[number] = completed

    def _poll(
        self,
        process: int | str,
        partition: str,
        invoked: float,
        completed: float,
        records: list[tuple[int, int]],
        position: int = NO_OFFSET,
        assigned: bool = False,
        **more: Any,
    ) -> None:
        who = self._who(process)
        if assigned:
            self.history.assigned(who, partition)
        self.history.poll(who, partition, position, invoked, completed, records, **more)

    def _end(self, process: int | str, partition: str, offset: int, invoked: float, completed: float) -> None:
        self.history.end(self._who(process), partition, offset, invoked, completed)

    def _deleted(self, partition: str, before: int) -> None:
        self.history.deleted(partition, before)

    def _compacts(self, partition: str) -> None:
        self.history.compacts(partition)

    def _finished(self, partition: str, start: int, end: int) -> None:
        self.history.finished(partition, start, end)
