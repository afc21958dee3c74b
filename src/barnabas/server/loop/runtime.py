"""What every part of one node works with: its loop, its clock, its metrics, its tasks, the end of its steps.

It knows no part of the node: parts are built with it and with the other parts that they use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from barnabas.config import Config
from barnabas.ports import Clock, Randomness
from barnabas.server.loop.loop_step import LoopStep
from barnabas.server.loop.receive_buffer import ReceiveBuffer
from barnabas.server.loop.sync_threads import Syncing
from barnabas.server.loop.tasks import Tasks
from barnabas.server.observe.metrics import Histogram, Metrics

__all__ = ["Runtime"]


class Runtime:
    """Made first when a node starts.  `config` is what holds now: some settings change at run time."""

    __slots__ = ("clock", "config", "loop", "metrics", "node_id", "random", "receive_buffer", "step", "tasks")

    def __init__(
        self,
        config: Config,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        random: Randomness,
        *,
        syncer: Callable[[asyncio.AbstractEventLoop, Histogram], Syncing],
        on_fatal: Callable[[Exception], None],
        reads_apart_s: float,
    ) -> None:
        """`syncer` makes what calls fsync; `on_fatal` hears of an error after which the node must stop;
        `reads_apart_s`: see `net.platform`."""
        self.config = config
        self.node_id = config.node_id
        self.loop = loop
        self.clock = clock
        self.random = random
        self.metrics = Metrics()
        self.tasks = Tasks(loop, on_fatal)
        self.receive_buffer = ReceiveBuffer()
        """Where all connections receive."""
        self.step = LoopStep(
            loop, clock, self.metrics, self.receive_buffer, syncer, on_fatal, reads_apart_s=reads_apart_s
        )

    def __repr__(self) -> str:
        return f"<Runtime node={self.node_id}>"
