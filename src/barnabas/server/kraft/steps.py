"""The loop around `raft.driver`: messages in, then steps until nothing is left to do.

Proposals to the controller are decided between two steps of the driver, and proposed at once.  A decision about
many partitions takes several steps of the event loop (`proposals`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf

from barnabas.errors import ErrorCode, KafkaError
from barnabas.ports import Clock
from barnabas.raft.driver import Driver
from barnabas.raft.entries import Opaque
from barnabas.raft.log_view import LogView
from barnabas.raft.messages import Message, Propose, Received, Tick
from barnabas.server.kraft.proposals import Proposals
from barnabas.server.net.context import RequestContext
from barnabas.server.observe.history import asker
from barnabas.wire.codec.message import Message as WireMessage
from barnabas.wire.codec.message import MetadataRecord

__all__ = ["QuorumSteps"]


class QuorumSteps:
    """`receive(message)` and `pump()`; its timer is the driver's next deadline.

    `fail` takes an error after which nothing may be served; `on_step` hears the seconds that each step took.
    """

    __slots__ = (
        "_again",
        "_clock",
        "_closed",
        "_driver",
        "_fail",
        "_halted",
        "_log_view",
        "_loop",
        "_on_step",
        "_requests",
        "_resuming",
        "_timer",
        "running",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        driver: Driver,
        requests: Proposals,
        log_view: LogView,
        *,
        on_step: Callable[[float], None],
        fail: Callable[[BaseException], None],
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._driver = driver
        self._requests = requests
        self._log_view = log_view
        self._on_step = on_step
        self._fail = fail
        self.running = False
        """Whether a step is under way: this is called from inside it."""
        self._again = False
        self._resuming = False
        self._closed = False
        self._halted = False
        self._timer: asyncio.TimerHandle | None = None

    def receive(self, message: Message) -> None:
        """Hand a message to the core."""
        if not self._halted:
            self._driver.receive(message)
            self.pump()

    def handle(self, context: RequestContext, request: WireMessage) -> asyncio.Future[WireMessage]:
        """A request for the quorum: of a peer (Vote, Fetch, ...) or an operator (AddRaftVoter, ...).

        Raises KafkaError for what is not about the metadata partition, and after a failure.
        """
        from barnabas.server.kraft.calls import Caller  # not needed by a node alone

        if self._halted:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "this controller does not run")
        caller = Caller(self._loop.create_future(), request, context.version, context.client.listener)
        caller.by = asker(context)
        self.receive(Received(caller, caller.asked()))
        return caller.future

    def append_own(self, records: list[MetadataRecord]) -> None:
        """Append records that nobody asked for."""
        self._requests.add_records(records)
        self.pump()

    def pump(self) -> None:
        """Take steps until nothing is left to do; called from inside a step it only asks for another."""
        if self.running:
            self._again = True
            return
        self.running = True
        self._requests.begin_loop_step()
        begun = self._clock.now().mono
        try:
            self._again = True
            while self._again and not self._halted:
                self._again = False
                self._driver.run(self._clock.now())
                while self._requests.waiting and not self._halted:
                    self._decide_next()
        except Exception as error:  # whatever it is, an image or a log half changed must not be served
            self._fail(error)
        finally:
            self.running = False
        self._on_step(self._clock.now().mono - begun)
        if self._requests.resting and not self._resuming:
            self._resuming = True
            self._loop.call_soon(self.guarded, self._go_on)
        self._arm()

    def _decide_next(self) -> None:
        now, epoch = self._clock.now(), self._driver.node.epoch
        decided = self._requests.decide_next(self._log_view.end_offset, epoch, now)
        if decided is not None:
            entry = Opaque(decided.payload, len(decided.payload))
            self._driver.receive(Propose(decided, epoch, (entry,)))
            self._driver.run(now)

    def _go_on(self) -> None:
        """A decision about many partitions has its next step."""
        self._resuming = self._requests.resting = False
        if not self._closed:
            self.pump()

    def _arm(self) -> None:
        self.cancel_timer()
        if self._halted or self._closed:
            return
        deadline = self._driver.next_deadline()
        if deadline < inf:
            delay = max(0.0, deadline - self._clock.now().mono)
            self._timer = self._loop.call_later(delay, self.receive, Tick())

    def guarded(self, step: Callable[..., None], *arguments: object) -> None:
        """A step that the loop calls: what goes wrong in it is the node's end, else nobody hears of it."""
        try:
            step(*arguments)
        except Exception as error:
            self._fail(error)

    def close(self) -> None:
        """The node stops: messages are still taken, but no time passes any more."""
        self._closed = True

    def halt(self) -> None:
        """Take nothing more."""
        self._halted = True
        self.cancel_timer()

    def cancel_timer(self) -> None:
        """Do not wait for the next deadline."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def __repr__(self) -> str:
        return f"<QuorumSteps {'halted' if self._halted else 'closed' if self._closed else 'open'}>"
