"""What the parts of one node share: handed to connections and handlers instead of globals."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple, cast

from barnabas.config import Config
from barnabas.model import Now
from barnabas.ports import Clock, Randomness
from barnabas.server.loop.memory import MemoryBudget
from barnabas.server.loop.receive_buffer import Arena
from barnabas.server.net.platform import Machine
from barnabas.server.observe.metrics import Metrics
from barnabas.server.observe.traffic import Traffic
from barnabas.server.replication.applier import Applier
from barnabas.server.replication.leader_suspicion import Doubts

if TYPE_CHECKING:
    from barnabas.broker.groups.coordinator import Groups
    from barnabas.broker.ports import Authorizer
    from barnabas.broker.replicas.broker import Broker
    from barnabas.server.api.metadata import TopicAnswers
    from barnabas.server.kraft.driver import Quorum
    from barnabas.server.loop.loop_step import Turn
    from barnabas.server.loop.tasks import Tasks
    from barnabas.server.replication.fast_fencing import Deaths

__all__ = ["Limits", "Services"]


FOR_CONTROLLERS = 32 * 1024 * 1024
"""Bytes that connections of the controllers' listener may hold: clients cannot take them away."""


class Limits(NamedTuple):
    """The limits that every connection looks at (bytes and counts)."""

    max_request: int
    max_unsent: int
    max_pipelined: int
    sendfile_from: int
    slow_request_s: float

    @classmethod
    def of(cls, config: Config) -> Limits:
        return cls(
            config.int("socket.request.max.bytes"),
            config.int("barnabas.connection.max.unsent.bytes"),
            config.int("barnabas.connection.max.pipelined"),
            config.int("barnabas.sendfile.min.bytes"),
            config.int("barnabas.slow.request.ms") / 1000,
        )


class Services:
    """One node from the inside.  `broker`, `groups` and `quorum` are there once the node has started."""

    __slots__ = (
        "applier",
        "arena",
        "authorizer",
        "broker",
        "clock",
        "config",
        "controller_memory",
        "deaths",
        "doubts",
        "groups",
        "limits",
        "loop",
        "machine",
        "memory",
        "metadata",
        "metrics",
        "node_id",
        "produce_memo",
        "quorum",
        "random",
        "request_ids",
        "tasks",
        "traffic",
        "turn",
    )

    def __init__(
        self,
        config: Config,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        random: Randomness,
        machine: Machine | None = None,
    ) -> None:
        self.config = config
        self.node_id = config.node_id
        self.loop = loop
        self.clock = clock
        self.random = random
        self.machine = machine or Machine()
        self.limits = Limits.of(config)
        self.memory = MemoryBudget(
            config.int("queued.max.request.bytes"), self.limits.max_request, self.machine.monotonic
        )
        self.controller_memory = MemoryBudget(FOR_CONTROLLERS, clock=self.machine.monotonic)
        self.arena = Arena()
        self.metrics = Metrics()
        self.traffic = Traffic(self.metrics)
        self.authorizer: Authorizer | None = None
        self.request_ids = 0
        self.produce_memo = config.bool("barnabas.produce.memo")
        self.turn: Turn = cast("Turn", None)
        self.tasks: Tasks = cast("Tasks", None)
        self.broker: Broker = cast("Broker", None)
        self.groups: Groups = cast("Groups", None)
        self.quorum: Quorum = cast("Quorum", None)
        self.metadata: TopicAnswers = cast("TopicAnswers", None)
        self.applier = Applier(self)
        self.doubts = Doubts(clock, config.node_id)
        self.deaths: Deaths | None = None
        """On controllers, unless it is turned off."""

    def now(self) -> Now:
        """One reading of the clock, to be handed inwards."""
        return self.clock.now()

    def __repr__(self) -> str:
        return f"<Services node={self.node_id}>"
