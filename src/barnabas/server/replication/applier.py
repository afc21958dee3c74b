"""Carrying out of the metadata in slices, so that nobody on this loop waits for a thousand partitions.

`Broker.note` records a commit.  This module then takes the steps, for `SLICE_S` seconds at a time, and between
two slices the loop does other work for as long as the slice took.  A commit of few partitions is done before
its own loop step ends, so that nobody sees a state in between.  A client that had topics created or deleted
gets its answer when this node has applied the change (`after`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.server.loop.runtime import Runtime
from barnabas.wire.codec.message import Message

if TYPE_CHECKING:
    from barnabas.broker.replicas.broker import Broker
    from barnabas.controller.image import ImageDelta

__all__ = ["SLICE_S", "Applier"]

SLICE_S = 0.004
"""Seconds of work in one loop step."""


class Applier:
    """The commits that this node's broker has still to carry out; none without a broker."""

    __slots__ = (
        "_broker",
        "_pause",
        "_running",
        "_runtime",
        "_slice_steps",
        "_stopped",
        "_waiting",
        "serving",
    )

    def __init__(self, runtime: Runtime, slice_steps: int) -> None:
        """A slice has at most `slice_steps` steps."""
        self._runtime = runtime
        self._slice_steps = slice_steps
        self._broker: Broker | None = None
        self._running = False
        self._stopped = False
        self._pause = 0.0
        self.serving = False
        """Whether clients are served: then slices take half of the time and no more."""
        self._waiting: list[Callable[[], object]] = []

    def follow(self, broker: Broker) -> None:
        """Carry out here what this broker takes note of."""
        self._broker = broker

    def changed(self, delta: ImageDelta) -> None:
        """A commit was applied to the image."""
        if self._broker is not None:
            self._broker.note(delta)
            self.soon()

    def soon(self) -> None:
        """The broker may have something to carry out: a slice of it now, the others later."""
        if not self._running and not self._stopped and not self._slice():
            self._running = True
            self._runtime.tasks.start(self._go_on(), "apply metadata")

    def stop(self) -> None:
        """Carry out nothing more."""
        self._stopped = True

    async def applied(self) -> None:
        """Returns when everything that is committed by now is carried out here."""
        if self._broker is not None and self._broker.reconciler:
            done = asyncio.Event()
            self.then(done.set)
            await done.wait()

    def then(self, action: Callable[[], object]) -> None:
        """Call it when everything that is committed by now is carried out here; now, if it is."""
        if self._broker is not None and self._broker.reconciler:
            self._waiting.append(action)
        else:
            action()

    def after(self, answer: asyncio.Future[Message]) -> asyncio.Future[Message]:
        """The same answer, once this node has carried out what it is about (as far as it knows of it)."""
        later: asyncio.Future[Message] = self._runtime.loop.create_future()

        def pass_on() -> None:
            if later.done():
                return
            if answer.cancelled():
                later.cancel()
            elif (error := answer.exception()) is not None:
                later.set_exception(error)
            else:
                later.set_result(answer.result())

        answer.add_done_callback(lambda _: self.then(pass_on))
        return later

    async def _go_on(self) -> None:
        try:
            while not self._stopped:
                await asyncio.sleep(self._pause if self.serving else 0)
                if self._slice():
                    return
        finally:
            self._running = False

    def _slice(self) -> bool:
        """Do so much; whether nothing is left that can be done now."""
        if self._broker is None:
            return True
        runtime = self._runtime
        reconciler, clock = self._broker.reconciler, runtime.clock
        now = clock.now()
        begun, end, most = now.mono, now.mono + SLICE_S, self._slice_steps
        while reconciler.ready and most:
            reconciler.step(now)
            most -= 1
            now = clock.now()
            if now.mono > end:
                break
        reconciler.tell()
        self._pause = now.mono - begun
        runtime.step.late.note("metadata", self._pause)
        runtime.step.soon()
        if reconciler.ready:
            return False
        if reconciler:  # threads make logs: whoever hears that they are made calls `soon`
            return True
        waiting, self._waiting = self._waiting, []
        for action in waiting:
            action()
        return True

    def __repr__(self) -> str:
        return f"<Applier {'working' if self._running else 'idle'} waiting={len(self._waiting)}>"
