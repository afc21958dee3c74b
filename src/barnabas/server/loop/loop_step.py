"""The end of a turn of the event loop: write, tell, sync, send.

During a turn handlers append to logs in memory, and answers are encoded.  At its end, in this order:

1. `broker.end_turn`: one gathered write per log; high watermarks move; waiters that this completes are
   answered.  (Before the write nobody may be told: a reader would look for bytes that are not there.)
2. The syncs it asks for start in threads, at most one per log; all that arrives meanwhile shares the next.
3. The receive arena is empty again.
4. Every connection with answers sends them, in one call.

A turn in which nothing happened costs nothing: it is scheduled by whoever has something for its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from barnabas.errors import StorageError
from barnabas.log.storage.sync import Job
from barnabas.server.observe import events

if TYPE_CHECKING:
    from barnabas.server.loop.runtime import Services

__all__ = ["Flushable", "Turn"]

LATE = 0.1
"""A step of the loop that took longer (seconds) gets a line."""
LONG = 0.01
"""Turns that take longer (seconds) are counted: nobody else is served meanwhile."""
MAINTENANCE = 1.0
"""Seconds between two looks at retention, checkpoints and the like."""


BREATH = 0.01
"""The same while a look is not finished: it goes in small steps."""


class Flushable(Protocol):
    """A connection."""

    def flush(self) -> None: ...
    def abort(self) -> None: ...


class Turn:
    """The clockwork of one node.  `soon()` whenever a core may have something for the end of the turn."""

    __slots__ = (
        "_begun",
        "_dirty",
        "_maintenance",
        "_node",
        "_scheduled",
        "_timer",
        "_timer_at",
        "lag",
        "long_turns",
        "on_fatal",
        "steps",
        "stopped",
        "syncer",
        "turns",
    )

    def __init__(self, node: Services) -> None:
        self._node = node
        self._scheduled = False
        self._begun = 0.0
        self._dirty: list[Flushable] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._maintenance: asyncio.TimerHandle | None = None
        self.stopped = False
        self.on_fatal: Callable[[Exception], None] | None = None
        metrics = node.metrics
        self.steps = metrics.histogram(
            "barnabas:type=Loop,name=TurnEndTime", "Seconds that the end of a turn took"
        )
        self.turns = metrics.histogram(
            "barnabas:type=Loop,name=TurnTime", "Seconds from the first work of a turn to its end"
        )
        self.long_turns = metrics.counter(
            "barnabas:type=Loop,name=LongTurns",
            f"Turns, looks at maintenance, slices of metadata and steps of the quorum beyond {LONG * 1000:.0f} ms",
        )
        self.lag = metrics.histogram("barnabas:type=Loop,name=Lag", "Seconds that a timer fired late")
        sync_time = metrics.histogram(
            "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs", "Seconds per sync"
        )
        self.syncer = node.machine.syncer(node.loop, sync_time)

    def soon(self) -> None:
        """Have the end of this turn run."""
        if not self._scheduled:
            self._scheduled = True
            self._begun = monotonic()
            self._node.loop.call_soon(self._end)

    def flush_later(self, connection: Flushable) -> None:
        """Have `connection.flush()` called at the end of this turn (the caller sees to once)."""
        self._dirty.append(connection)
        if not self._scheduled:
            self._scheduled = True
            self._begun = monotonic()
            self._node.loop.call_soon(self._end)

    def sync(self, sync: Job) -> None:
        """Run a sync that the broker handed out at another time than the end of a turn."""
        self.syncer.submit(sync, self._synced)

    @property
    def busy(self) -> bool:
        """Whether an end of a turn is due or a sync in flight."""
        return self._scheduled or self.syncer.in_flight > 0

    def start(self) -> None:
        """Begin the regular work: maintenance, and the measuring of the loop's lag."""
        self._maintain(self._node.loop.time())

    def _end(self) -> None:
        node = self._node
        now = node.clock.now()
        begun, began = self._begun, monotonic()
        broker = node.broker
        if broker is not None and not self.stopped:
            try:
                for sync in broker.end_turn(now):
                    self.syncer.submit(sync, self._synced)
            except Exception as error:
                self._failed(error)
            self._arm(broker.next_deadline())
            if node.groups is not None:
                self._arm(node.groups.next_deadline())
        node.arena.reset()
        self._scheduled = False  # whoever comes from here on, comes for the next end
        dirty, self._dirty = self._dirty, []
        for connection in dirty:
            try:
                connection.flush()
            except Exception as error:  # the others have their answers all the same
                events.emit(events.REQUEST_FAILED, error=error)
                connection.abort()
        ended = monotonic()
        self.steps.observe(ended - began)
        took = ended - begun
        self.turns.observe(took)
        self.note("a turn", took)

    def note(self, what: str, seconds: float) -> None:
        """Something held the loop for so long."""
        if seconds > LONG:
            self.long_turns.value += 1
            if seconds > LATE:
                events.emit(events.LOOP_LATE, what=what, seconds=f"{seconds:.3f}")

    def _synced(self, sync: Job, error: StorageError | None) -> None:
        if self.stopped:
            return
        try:
            self._node.broker.synced(sync, error, self._node.clock.now())  # type: ignore[arg-type]  # it made it
        except Exception as failure:
            self._failed(failure)
        self.soon()

    def _arm(self, deadline: float | None) -> None:
        """See that `tick` is called at `deadline` (monotonic seconds, as the loop's own clock)."""
        if deadline is None:
            return
        if self._timer is not None:
            if self._timer_at <= deadline:
                return
            self._timer.cancel()
        loop = self._node.loop
        self._timer_at = deadline
        self._timer = loop.call_later(max(0.0, deadline - self._node.clock.now().mono), self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self.stopped:
            return
        node, now = self._node, self._node.clock.now()
        try:
            node.broker.tick(now)
            if node.groups is not None:
                node.groups.tick(now)
        except Exception as error:
            self._failed(error)
        self.soon()

    def _maintain(self, expected: float) -> None:
        if self.stopped:
            return
        loop, node = self._node.loop, self._node
        begun = loop.time()
        self.lag.observe(max(0.0, begun - expected))
        if node.broker is not None:
            try:
                node.broker.maintain(node.clock.now())
            except Exception as error:
                self._failed(error)
            if node.broker.behind:
                node.applier.soon()
        self.note("maintenance", loop.time() - begun)
        busy = node.broker is not None and node.broker.maintaining
        again = loop.time() + (BREATH if busy else MAINTENANCE)
        self._maintenance = loop.call_at(again, self._maintain, again)
        self.soon()

    def _failed(self, error: Exception) -> None:
        """An error of ours in the middle of a step: what is half done cannot be trusted any more."""
        events.emit(events.NODE_FAILED, error=error)
        if self.on_fatal is not None:
            self.on_fatal(error)

    def stop(self) -> None:
        """No more ends of turns for the broker; answers still leave."""
        self.stopped = True
        for timer in (self._timer, self._maintenance):
            if timer is not None:
                timer.cancel()
        self.syncer.stop()

    def __repr__(self) -> str:
        return f"<Turn {'stopped' if self.stopped else 'scheduled' if self._scheduled else 'idle'}>"
