"""What the sockets of one node share: the platform, the limits, the memory that clients may hold, the quotas."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from barnabas.config import Config
from barnabas.errors import StorageError
from barnabas.server.loop.memory import MemoryBudget
from barnabas.server.loop.runtime import Runtime
from barnabas.server.net.platform import Platform
from barnabas.server.net.throttle import Throttle

__all__ = ["Limits", "Network"]

CONTROLLER_MEMORY_BYTES = 32 * 1024 * 1024
"""Bytes that connections of the controllers' listener may hold: clients cannot take them away."""


class Limits(NamedTuple):
    """The limits that every connection looks at (bytes and counts)."""

    max_request: int
    max_unsent: int
    max_pipelined: int
    sendfile_from: int
    slow_request_s: float
    max_elements: int

    @classmethod
    def of(cls, config: Config) -> Limits:
        return cls(
            config.int("socket.request.max.bytes"),
            config.int("barnabas.connection.max.unsent.bytes"),
            config.int("barnabas.connection.max.pipelined"),
            config.int("barnabas.sendfile.min.bytes"),
            config.int("barnabas.slow.request.ms") / 1000,
            config.int("barnabas.request.max.elements"),
        )


class Network:
    """One per node.  `request_ids` counts the requests of all its connections."""

    __slots__ = (
        "controller_memory",
        "limits",
        "loop",
        "memory",
        "on_unreadable",
        "platform",
        "receive_buffer",
        "request_ids",
        "runtime",
        "step",
        "throttle",
    )

    def __init__(
        self, runtime: Runtime, platform: Platform, on_unreadable: Callable[[StorageError], None]
    ) -> None:
        """`on_unreadable` hears of a file that the disk could not read for an answer."""
        config = runtime.config
        self.runtime = runtime
        self.loop = runtime.loop
        self.step = runtime.step
        self.receive_buffer = runtime.receive_buffer
        self.platform = platform
        self.on_unreadable = on_unreadable
        self.limits = Limits.of(config)
        self.memory = MemoryBudget(
            config.int("queued.max.request.bytes"), self.limits.max_request, platform.monotonic
        )
        self.controller_memory = MemoryBudget(CONTROLLER_MEMORY_BYTES, clock=platform.monotonic)
        self.throttle = Throttle(config, runtime.clock, runtime.metrics)
        self.request_ids = 0

    def __repr__(self) -> str:
        return f"<Network memory={self.memory.used}>"
