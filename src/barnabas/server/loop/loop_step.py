"""The end of a loop step: write, tell, sync, send.

During a loop step handlers append to logs in memory, and answers are encoded.  At its end, in this order:

1. `broker.end_loop_step`: one gathered write per log; high watermarks move; waiters that this completes are
   answered.  (Before the write nobody may be told: a reader would look for bytes that are not there.)
2. The syncs it asks for start in threads, at most one per log; all that arrives meanwhile shares the next.
3. The receive buffer is empty again.
4. Every connection with answers sends them, in one call.  (A small answer that is the only one of its connection
   has left in 1: who waits for it goes on meanwhile.)

A loop step in which nothing happened costs nothing: it is scheduled by whoever has something for its end.

While clients come one at a time, a step ends where its only read does: nobody else would share its end, and
the loop need not turn once more.  Once reads come close together, their step ends after all of them again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from barnabas.errors import StorageError
from barnabas.log.files.sync import Job
from barnabas.model import Now
from barnabas.ports import Clock
from barnabas.server.loop.late_steps import LONG_STEP_S, LateSteps
from barnabas.server.loop.receive_buffer import ReceiveBuffer
from barnabas.server.loop.sync_threads import Syncing
from barnabas.server.observe import events
from barnabas.server.observe.metrics import Histogram, Metrics

if TYPE_CHECKING:
    from barnabas.broker.replicas.broker import Broker

__all__ = ["Flushable", "LoopStep"]

MAINTENANCE_S = 1.0
"""Seconds between two looks at retention, checkpoints and the like."""


MAINTENANCE_RETRY_S = 0.01
"""The same while a look is not finished: it goes in small steps."""
DEADLINES_APART_S = 0.02
"""Seconds between two looks at everybody's deadlines: a busy node has hundreds of turns in between."""
ALONE_STEPS = 8
"""After so many steps with one read each, the next read is taken to be alone as well."""
_LEAST_DELAY_S = 0.001
"""Least delay (seconds) of a look that is repeated: the loop's clock has milliseconds, and rounds."""


class Ticking(Protocol):
    """A coordinator: of groups, of transactions.

    Its next deadline is 0 while it works in small pieces: then `tick` is called in every turn of the loop.
    """

    def next_deadline(self) -> float | None: ...
    def tick(self, now: Now) -> None: ...


class Flushable(Protocol):
    """A connection."""

    def flush(self) -> None: ...
    def abort(self) -> None: ...


class LoopStep:
    """The clockwork of one node.  `soon()` whenever a core may have something for the end of the loop step."""

    __slots__ = (
        "_alone",
        "_begun",
        "_broker",
        "_clock",
        "_coordinators",
        "_deadlines_at",
        "_dirty",
        "_ended",
        "_flushed",
        "_loop",
        "_maintenance",
        "_on_behind",
        "_on_fatal",
        "_reads_apart_s",
        "_receive_buffer",
        "_scheduled",
        "_settle",
        "_timer",
        "_timer_at",
        "lag",
        "late",
        "steps",
        "stopped",
        "syncer",
        "turns",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        metrics: Metrics,
        receive_buffer: ReceiveBuffer,
        syncer: Callable[[asyncio.AbstractEventLoop, Histogram], Syncing],
        on_fatal: Callable[[Exception], None],
        *,
        reads_apart_s: float = inf,
    ) -> None:
        """`syncer` makes what calls fsync; `reads_apart_s`: see `net.platform`."""
        self._loop = loop
        self._clock = clock
        self._receive_buffer = receive_buffer
        self._on_fatal = on_fatal
        self._broker: Broker | None = None
        """Driven until the stop."""
        self._coordinators: Sequence[Ticking] = ()
        self._on_behind: Callable[[], None] = _nobody_waits
        self._scheduled = False
        self._begun = self._ended = 0.0
        self._alone = 0
        """Steps since two reads came close together."""
        self._reads_apart_s = reads_apart_s
        self._dirty: list[Flushable] = []
        self._flushed: list[Flushable] = []
        """Those that the last step sent something."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._deadlines_at = -inf
        """Before then (mono s) nobody is asked for its deadline again."""
        self._maintenance: asyncio.TimerHandle | None = None
        self._settle = metrics.settle
        self.late = LateSteps(metrics)
        self.stopped = False
        self.steps = metrics.histogram(
            "barnabas:type=Loop,name=TurnEndTime", "Seconds that the end of a turn took"
        )
        self.turns = metrics.histogram(
            "barnabas:type=Loop,name=TurnTime", "Seconds from the first work of a turn to its end"
        )
        self.lag = metrics.histogram("barnabas:type=Loop,name=Lag", "Seconds that a timer fired late")
        sync_time = metrics.histogram(
            "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs", "Seconds per sync"
        )
        self.syncer = syncer(loop, sync_time)

    def drive(self, broker: Broker, coordinators: Sequence[Ticking], on_behind: Callable[[], None]) -> None:
        """From now on do the work of the broker and its coordinators at the end of each step.

        `on_behind` is called when the broker has metadata to carry out that no commit announces.
        """
        self._broker, self._coordinators, self._on_behind = broker, coordinators, on_behind

    def soon(self) -> None:
        """Have the end of this loop step run."""
        if not self._scheduled:
            self._scheduled = True
            self._begun = monotonic()
            self._loop.call_soon(self._end_later)

    def flush_later(self, connection: Flushable) -> None:
        """Have `connection.flush()` called at the end of this loop step (the caller sees to once)."""
        self._dirty.append(connection)
        if not self._scheduled:
            self.soon()

    def looks_at(self, deadline: float) -> bool:
        """Whether somebody looks at the deadlines before this one (mono s), without a step before."""
        return self._timer is not None and self._timer_at <= deadline

    def end_now(self, now: Now) -> None:
        """Run the end of this loop step at once, unless others wait for it as well.  `now`: not long ago."""
        if not self._scheduled:
            self._scheduled = True
            self._begun = monotonic()
            self._end(now)

    def end_of_read(self, reader: Flushable, received: float, now: Now) -> None:
        """The read of a connection, which began then (mono s), has something for the end of this loop step: run it
        at once if the client seems to be alone.  `now`: when its frames were served."""
        if self._scheduled or (received - self._ended < self._reads_apart_s and self._waited(reader)):
            self._alone = 0
        if self._alone < ALONE_STEPS:
            self.soon()
        else:
            self._scheduled = True
            self._begun = received
            self._end(now)

    def _waited(self, reader: Flushable) -> bool:
        """Whether a read that begins so soon after a step was there before its end.  A client that was answered
        then, and nobody else, may well have asked again by now."""
        return self._reads_apart_s == inf or self._flushed != [reader]

    def sync(self, sync: Job) -> None:
        """Run a sync that the broker handed out at another time than the end of a loop step."""
        self.syncer.submit(sync, self._synced)

    @property
    def busy(self) -> bool:
        """Whether an end of a loop step is due or a sync in flight."""
        return self._scheduled or self.syncer.in_flight > 0

    def start(self) -> None:
        """Begin the regular work: maintenance, and the measuring of the loop's lag."""
        self._maintain(self._loop.time())

    def _end_later(self) -> None:
        self._end(self._clock.now())

    def _end(self, now: Now) -> None:
        begun, began = self._begun, monotonic()
        broker = self._broker
        if broker is not None:
            try:
                for sync in broker.end_loop_step(now):
                    self.syncer.submit(sync, self._synced)
            except Exception as error:
                self._failed(error)
            if now.mono >= self._deadlines_at:
                self._arm(self._next_deadline(broker, now), now)
            elif self._timer is None or self._timer_at > self._deadlines_at:
                self._arm(self._deadlines_at, now)
        self._receive_buffer.reset()
        self._scheduled = False  # whoever comes from here on, comes for the next end
        self._flushed, self._dirty = self._dirty, []
        for connection in self._flushed:
            try:
                connection.flush()
            except Exception as error:  # the others have their answers all the same
                events.emit(events.REQUEST_FAILED, error=error)
                connection.abort()
        self._ended = ended = monotonic()
        self._alone += 1
        self.steps.note(ended - began)
        took = ended - begun
        self.turns.note(took)
        if took > LONG_STEP_S:
            self.late.note("a turn", took)

    def _synced(self, sync: Job, error: StorageError | None) -> None:
        broker = self._broker
        if broker is None:
            return
        try:
            broker.synced(sync, error, self._clock.now())  # type: ignore[arg-type]  # it made it
            if broker.reconciler.ready:
                self._on_behind()
        except Exception as failure:
            self._failed(failure)
        self.soon()

    def _arm(self, deadline: float | None, now: Now) -> None:
        """See that `tick` is called at `deadline` (monotonic seconds, as the loop's own clock)."""
        if deadline is None:
            return
        if self._timer is not None:
            if self._timer_at <= deadline:
                return
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._loop.call_later(max(0.0, deadline - now.mono), self._tick)

    def _next_deadline(self, broker: Broker, now: Now) -> float | None:
        """The earliest deadline of all; nobody is asked again for a while."""
        self._deadlines_at = now.mono + DEADLINES_APART_S
        self._settle()  # (a second's worth at once would hold a busy loop)
        earliest = broker.next_deadline()
        for coordinator in self._coordinators:
            at = coordinator.next_deadline()
            if at is not None and (earliest is None or at < earliest):
                earliest = at
        return earliest

    def _tick(self) -> None:
        self._timer = None
        broker = self._broker
        if broker is None:
            return
        now = self._clock.now()
        earliest = self._next_deadline(broker, now)
        if earliest is None:
            return
        if earliest > now.mono:  # it was only time to look at them again
            self._arm(max(earliest, now.mono + _LEAST_DELAY_S), now)
            return
        try:
            broker.tick(now)
            for coordinator in self._coordinators:
                coordinator.tick(now)
                if coordinator.next_deadline() == 0.0:
                    self._arm(0.0, now)
        except Exception as error:
            self._failed(error)
        self.soon()

    def _maintain(self, expected: float) -> None:
        if self.stopped:
            return
        loop, broker = self._loop, self._broker
        begun = loop.time()
        self.lag.observe(max(0.0, begun - expected))
        if broker is not None:
            try:
                broker.maintain(self._clock.now())
            except Exception as error:
                self._failed(error)
            if broker.reconciler:
                self._on_behind()
        self._settle()
        self.late.note("maintenance", loop.time() - begun)
        busy = broker is not None and broker.maintaining
        again = loop.time() + (MAINTENANCE_RETRY_S if busy else MAINTENANCE_S)
        self._maintenance = loop.call_at(again, self._maintain, again)
        self.soon()

    def _failed(self, error: Exception) -> None:
        """An error of ours in the middle of a step: what is half done cannot be trusted any more."""
        events.emit(events.NODE_FAILED, error=error)
        self._on_fatal(error)

    def stop(self) -> None:
        """No more ends of loop steps for the broker; answers still leave."""
        self.stopped = True
        self._broker = None
        for timer in (self._timer, self._maintenance):
            if timer is not None:
                timer.cancel()
        self.syncer.stop()

    def __repr__(self) -> str:
        return f"<LoopStep {'stopped' if self.stopped else 'scheduled' if self._scheduled else 'idle'}>"


def _nobody_waits() -> None:
    """What is called before there is a broker."""
