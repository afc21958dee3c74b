"""The same work at two nodes, of which one recognizes requests: what makes their answers comparable."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol
from unittest import mock

from tests.broker.harness import WALL, Chance

from barnabas.config import Config
from barnabas.model import Now
from barnabas.server.node.process import ServerNode
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.plane.fetch_asked import FetchFrames

__all__ = ["Counting", "counting", "decoding_fetches", "node_of", "same"]


class _FixedClock:
    """Wall time stands still: append times are the same in every run."""

    def now(self) -> Now:
        return Now(time.monotonic(), WALL)


def node_of(settings: Config, disk: MemoryDisk | None = None) -> ServerNode:
    """A node whose ids are the same in every run, and its append times too."""
    return ServerNode(
        settings, disk=disk or MemoryDisk(), clock=_FixedClock(), random=Chance(), format_new=True
    )


class Counting(Protocol):
    """What a run came to."""

    recognized: int


def counting(fast_path: type[Any], result: Counting) -> Any:
    """Meanwhile what this fast path takes counts as recognized."""
    original = fast_path.take

    def take(self: Any, *arguments: Any) -> bool:
        taken: bool = original(self, *arguments)
        result.recognized += taken
        return taken

    return mock.patch.object(fast_path, "take", take)


@contextmanager
def decoding_fetches(always: bool) -> Iterator[None]:
    """Meanwhile no fetch is read from its bytes, if `always`: the decoder reads them all."""
    with ExitStack() as patched:
        for name in ("read", "learn") if always else ():
            patched.enter_context(mock.patch.object(FetchFrames, name, lambda *arguments: None))
        yield


def same(slow: dict[str, bytes], fast: dict[str, bytes]) -> None:
    """The same things, alike each; the first that is not is named."""
    assert fast.keys() == slow.keys()
    for name, content in slow.items():
        assert fast[name] == content, name
