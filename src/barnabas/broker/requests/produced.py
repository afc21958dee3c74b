"""Produced batches on their way to an answer: acknowledged together, refused, or not known yet.

The requests of one read are answered in their order, from one place in the line of their connection
(`Produced`).  Their batches for one partition are written, synced and so acknowledged together (`Batches`), but
for those that are refused, or that wait for something before they are appended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.purgatory import Purgatory, Waiting
from barnabas.broker.replicas.acknowledgements import Acknowledgement
from barnabas.errors import ErrorCode
from barnabas.wire.plane.produce_asked import NO_TOPIC
from barnabas.wire.plane.produce_told import Extra, OneTold, ProduceAnswer, ToldRow

if TYPE_CHECKING:
    from barnabas.broker.replicas.hosted_partitions import HostedTopic
    from barnabas.broker.replicas.partition import Partition
    from barnabas.log.log import Log
    from barnabas.log.segments.segment import Segment
    from barnabas.model import Now, Offset
    from barnabas.wire.plane.produce_asked import Terms

__all__ = ["LATER", "Batches", "Destination", "Produced", "Reply", "Several", "Why"]

LATER = -2
"""The first offset of a batch that is not in its log yet: its `Batches` are its own, and will know."""


Why = tuple[ErrorCode, str]
"""Of a refusal: the code, and what a producer is told.  (A kept error would keep what it was raised in.)"""


class Destination:
    """A partition to which requests on certain terms write, or why they may not.

    `topic` is its id, or its name in UTF-8, as requests have it.  `why` is told before a batch is looked at, or
    if `late` after its shape.
    """

    __slots__ = ("hosted", "index", "late", "most", "partition", "segment", "told", "topic", "until", "why")

    def __init__(self, version: int, topic: bytes, index: int) -> None:
        self.topic = topic
        self.index = index
        self.told = OneTold(version, topic, index)
        self.hosted: HostedTopic | None = None
        self.partition: Partition = None  # type: ignore[assignment]  # where it is refused
        self.why: Why | None = None
        self.late = False
        self.segment: Segment | None = None
        """The log takes what a read may bring while this is its active segment, ends before `most`, and nothing is
        newer than `until`."""
        self.most = self.until = -1

    def __repr__(self) -> str:
        return f"<Destination {self.topic!r}-{self.index}>"


class Batches(Acknowledgement):
    """Batches of one read for one partition, acknowledged together, up to `end`.

    `start` is where the log began when they were done, `plain` whether the partition takes further plain batches
    of the read as they are.  `first`, `time` and `extra` are for one that is alone: its first offset if that was
    not known at once, its append time, and why it was refused.
    """

    __slots__ = (
        "begin",
        "destination",
        "done",
        "epoch",
        "error",
        "extra",
        "first",
        "log",
        "partition",
        "plain",
        "position",
        "run",
        "start",
        "time",
    )

    def __init__(self, destination: Destination, everywhere: bool) -> None:
        self.destination = destination
        self.partition = partition = destination.partition
        self.everywhere = everywhere
        self.plain = self.done = False
        self.error = 0
        self.end = self.start = self.first = self.time = -1
        self.extra: Extra | None = None
        self.run: Produced | None = None
        if partition is not None:
            self.log: Log = partition.log
            self.epoch = partition.leader_epoch
            self.begin: Offset = self.log.log_end_offset
            self.position = self.log.active.end_position

    def awaited(self, run: Produced) -> None:
        """Something of them was appended: answer it in the place of this run, when it is acknowledged."""
        if not run.terms.acks:
            self.partition.touch()
        elif self.run is None:
            run.opens(self)
            self.partition.await_acknowledgement(self)

    def appended(self) -> bool:
        """Count, and wait for, what was appended to the log since they began or were asked last: it is these."""
        log = self.log
        end = log.log_end_offset
        if end == self.begin:
            return False
        traffic, position = self.partition.leading.traffic, log.active.end_position
        traffic.records_in += end - self.begin
        traffic.bytes_in += position - self.position
        self.begin = self.end = end
        self.position = position
        return True

    def counted(self) -> None:
        """Count nothing that was appended up to now: who appended it did."""
        self.begin = self.end = self.log.log_end_offset
        self.position = self.log.active.end_position

    def settle(self, error: ErrorCode) -> None:
        """They are safe, or will never be known to be."""
        run = self.run
        if not self.done and run is not None:
            self.done = True
            self.run = None  # (no circle for the garbage collector)
            self.error = error
            if not error:
                self.start = self.partition.log.log_start_offset
            run.open -= 1
            if not run.open or (run.awaited is self and run.bucket is not None):
                run.look()  # (what is not parked is settled in this loop step too, or parks)

    def refuse(self, error: ErrorCode, start: Offset, extra: Extra | None) -> None:
        """It is not in the log; `start` is where that begins, if a producer shall know."""
        if not self.done:
            self.start, self.extra = start, extra
            if self.run is None:
                self.done, self.error = True, error
            else:
                self.settle(error)

    def row(self, first: Offset, time: int) -> ToldRow:
        """Return what is told of one of them, when they are done."""
        index = self.destination.index
        if self.error:
            return index, self.error, -1, -1, self.start, self.extra
        if first == LATER:
            first, time = self.first, self.time
        return index, 0, first, time, self.start, None

    def park(self) -> bool:
        """It takes longer than this loop step."""
        if self.done or self.run is None:
            return False
        self.run.park()
        return True

    def cancel(self) -> None:
        """Nobody wants to know any more."""
        self.done = True
        self.run = None
        self.partition.acknowledgements.forget(self)

    def __repr__(self) -> str:
        return f"<Batches {self.destination!r} up to {self.end}>"


class Several:
    """The answer to a request of other than one row: of each its batches, first offset and append time, and
    whether a topic begins with it."""

    __slots__ = ("correlation", "parts")

    def __init__(self, correlation: int, parts: list[tuple[Batches, Offset, int, int]]) -> None:
        self.correlation = correlation
        self.parts = parts

    def waits_for(self) -> Batches | None:
        """Return the last of its batches that is not done: mostly they are done in their order."""
        for batches, _, _, _ in reversed(self.parts):
            if not batches.done:
                return batches
        return None

    def answer(self) -> ProduceAnswer:
        """Return the answer, when all is done."""
        topics: list[tuple[bytes, list[ToldRow]]] = []
        rows: list[ToldRow] = []
        for batches, first, time, begins in self.parts:
            destination = batches.destination
            if begins:
                rows = []
                if destination.index != NO_TOPIC or batches.error:
                    topics.append((destination.topic, rows))
            if batches.error or first < 0:
                if destination.index >= 0 or batches.error:
                    rows.append(batches.row(first, time))
            else:
                rows.append((destination.index, 0, first, time, batches.start, None))
        return ProduceAnswer(topics)

    def __repr__(self) -> str:
        return f"<Several {self.correlation} {len(self.parts)}>"


Reply = tuple[Batches, int, "Offset", int] | Several
"""To a request of one row: its batches, the correlation id, its first offset and append time."""


class Produced(Waiting):
    """The requests of one read: `replies` leave in their order.

    `open` counts the batches that are not done, and `awaited` are those that the next reply waits for.  It waits
    in the purgatory while some of them are not done.
    """

    __slots__ = ("awaited", "batches", "early", "open", "purgatory", "replies", "terms", "written")

    def __init__(self, purgatory: Purgatory, terms: Terms, now: Now) -> None:
        self.deadline = now.mono + terms.timeout_ms / 1000.0  # (as the class above does, without the call)
        self.done = False
        self.bucket = None
        self.purgatory = purgatory
        self.terms = terms
        self.batches: list[Batches] = []
        self.replies: list[Reply] = []
        self.open = 0
        self.awaited: Batches | None = None
        self.early = False
        """Whether some batch was done at once: there may be something to send before all are."""
        self.written = False
        """Whether the bytes of the requests are needed no longer."""

    def opens(self, batches: Batches) -> None:
        """These are to be waited for."""
        batches.run = self
        self.batches.append(batches)
        self.open += 1
        if self.awaited is None:
            self.awaited = batches

    def look(self) -> None:
        """All of its batches are done, or those that the next reply waits for: there may be something to send."""
        raise NotImplementedError

    def park(self) -> None:
        """It takes longer than this loop step: from now on the timeout of its requests counts."""
        if self.bucket is None and self.terms.acks:
            self.purgatory.add(self, force=True)
            if self.early or (self.awaited is not None and self.awaited.done):
                self.look()

    def unpark(self) -> None:
        """Nothing is to be waited for any more."""
        if self.bucket is not None:
            self.bucket.purgatory.remove(self)

    def expired(self, now: Now) -> None:
        """Its time is over; what was appended stays in the log."""
        for batches in list(self.batches):
            if not batches.done:
                batches.partition.acknowledgements.forget(batches)
                batches.settle(ErrorCode.REQUEST_TIMED_OUT)

    def cancel(self) -> None:
        """The connection is gone; the batches stay."""
        self.done = True
        self.unpark()
        for batches in self.batches:
            batches.cancel()

    def __repr__(self) -> str:
        return f"<Produced {len(self.replies)} requests, {self.open} open>"
