"""Batches whose records a thread checks, because the loop would stop for too long.

A thread checks a slice of one batch at a time, so that a few bytes that decompress to a hundred megabytes do
not delay other batches for long.  Connections take turns, and only few batches are in progress at a time,
because each holds the memory of its codec.

Order: batches of one connection to one partition are appended in the order in which they came.  So a batch that
comes after one in a thread goes to the threads too (`is_busy`), and `returned` gives batches back in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from barnabas.broker.replicas.partition import Partition
    from barnabas.model import Now
    from barnabas.wire.records import BatchHeader

__all__ = ["BatchCheck", "BatchChecks", "RefusedError"]

_STEPS_PER_SLICE = 4
"""Steps of a slice: two thousand records or a megabyte, about a millisecond with the interpreter's lock."""
_BATCHES_AT_A_TIME = 2
"""Batches that are under way at a time, besides those that have not begun."""


class RefusedError(KafkaError):
    """A batch that may not enter the log; `records` are the culprits as (index, what is wrong)."""

    def __init__(self, code: ErrorCode, message: str, records: Sequence[tuple[int, str]] = ()) -> None:
        super().__init__(code, message)
        self.records = records


class BatchCheck:
    """One batch that waits for its check.  `run` is for a thread; the rest for the loop."""

    __slots__ = (
        "_steps",
        "batch",
        "connection",
        "failure",
        "finished",
        "header",
        "on_checked",
        "partition",
        "size",
    )

    def __init__(
        self,
        connection: int,
        partition: Partition,
        batch: bytearray | memoryview,
        header: BatchHeader,
        steps: Generator[None, None, tuple[bytearray | memoryview, BatchHeader]],
        on_checked: Callable[[BatchCheck, Now], None],
    ) -> None:
        """`batch` is its own copy of the bytes; `steps` checks them and returns what to append and its header;
        `on_checked` is called once, in the order of batches."""
        self.connection = connection
        self.partition = partition
        self.batch = batch
        self.size = len(batch)
        self.header = header
        self.on_checked = on_checked
        self.finished = False
        self.failure: KafkaError | None = None
        """Why the batch may not enter the log."""
        self._steps = steps

    def run(self) -> None:
        """One slice of the work.  Then look at `finished`."""
        try:
            for _ in range(_STEPS_PER_SLICE):
                next(self._steps)
        except StopIteration as end:
            self.batch, self.header = end.value
            self.finished = True
        except RefusedError as error:
            self._fail(error)
        except Exception as error:  # whatever these bytes did to a codec: the node has others to serve
            self._fail(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the batch cannot be read: {error!r}"))

    def _fail(self, error: KafkaError) -> None:
        self.failure = error
        self.finished = True
        self._steps.close()

    def __repr__(self) -> str:
        state = "finished" if self.finished else "under way"
        return f"<BatchCheck {self.partition.topic}-{self.partition.index} {self.size} bytes, {state}>"


class BatchChecks:
    """All batches that wait for a check: `next_slice` for a thread, `returned` when it has run.

    `hold(connection, bytes)` is told what is kept for whom, and (negative) what is given back.
    """

    __slots__ = ("_begun", "_handed", "_hold", "_waiting", "in_order")

    def __init__(self, hold: Callable[[int, int], None]) -> None:
        self._hold = hold
        self._waiting: dict[int, deque[BatchCheck]] = {}
        """By connection; the next one to be served comes first."""
        self._begun: deque[BatchCheck] = deque()
        self._handed: BatchCheck | None = None
        self.in_order: dict[tuple[int, Partition], deque[BatchCheck]] = {}
        """By connection and partition, as they came."""

    def __len__(self) -> int:
        return sum(len(checks) for checks in self.in_order.values())

    def is_busy(self, connection: int, partition: Partition) -> bool:
        """Whether a batch of this connection for this partition waits here or is being checked."""
        return (connection, partition) in self.in_order

    def add(self, check: BatchCheck) -> None:
        """Have a batch checked."""
        self._hold(check.connection, check.size)
        self._waiting.setdefault(check.connection, deque()).append(check)
        self.in_order.setdefault((check.connection, check.partition), deque()).append(check)

    def next_slice(self) -> BatchCheck | None:
        """What a thread should `run` now; one at a time."""
        if self._handed is not None:
            return None
        if self._waiting and len(self._begun) < _BATCHES_AT_A_TIME:
            connection, queue = next(iter(self._waiting.items()))
            del self._waiting[connection]
            self._begun.appendleft(queue.popleft())
            if queue:
                self._waiting[connection] = queue
        if not self._begun:
            return None
        self._handed = self._begun.popleft()
        return self._handed

    def returned(self, check: BatchCheck, now: Now) -> None:
        """A slice was run.  Calls `on_checked` of all that are through now."""
        self._handed = None
        if not check.finished:
            self._begun.append(check)
            return
        place = check.connection, check.partition
        queue = self.in_order.get(place)
        while queue and queue[0].finished:
            first = queue.popleft()
            if not queue:
                del self.in_order[place]
            self._let_go(first, now)

    def _let_go(self, check: BatchCheck, now: Now) -> None:
        self._hold(check.connection, -check.size)
        check.on_checked(check, now)

    def give_up(self, code: ErrorCode, now: Now) -> None:
        """The node stops: none of them is appended any more."""
        queues, self.in_order = list(self.in_order.values()), {}
        self._waiting.clear()
        self._begun.clear()
        for queue in queues:
            for check in queue:
                check.failure = KafkaError(code)
                self._let_go(check, now)

    def __repr__(self) -> str:
        return f"<BatchChecks {len(self)} batches of {len(self._waiting)} connections>"
