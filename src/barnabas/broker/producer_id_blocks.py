"""Producer ids, in blocks from the controller (AllocateProducerIds).

A node asks the controller once per thousand producers.  It asks for the next block when nine tenths of the
current one are used; requests that find no id wait.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from barnabas.broker.purgatory import Waiting
from barnabas.errors import ErrorCode
from barnabas.model import Now, ProducerId
from barnabas.wire.schemas.transactions import InitProducerIdResponse

__all__ = ["BLOCK_SIZE", "ProducerIdBlocks", "ProducerIdStatistics", "ProducerIdWaiting", "refused_init"]

BLOCK_SIZE = 1000
"""Ids in a block, as in Apache Kafka's controller."""
_ASK_AT = BLOCK_SIZE // 10
_ASK_AGAIN_AFTER_S = 5.0


class ProducerIdStatistics(NamedTuple):
    left: int
    given: int
    waiting: int


class ProducerIdBlocks:
    """The ids that this node may give out, and the requests that wait for more."""

    __slots__ = ("_asked_at", "_ranges", "given", "waiting")

    def __init__(self) -> None:
        self._ranges: deque[range] = deque()
        self._asked_at: float | None = None
        self.given = 0
        self.waiting: dict[ProducerIdWaiting, None] = {}

    @property
    def left(self) -> int:
        return sum(map(len, self._ranges))

    def take(self) -> ProducerId | None:
        """The next id; None when there is none left."""
        if not self._ranges:
            return None
        block = self._ranges.popleft()
        if len(block) > 1:
            self._ranges.appendleft(block[1:])
        self.given += 1
        return block[0]

    def should_ask(self, now: Now) -> bool:
        """Whether to ask the controller now; asked again after a while when no answer came."""
        if self.left > _ASK_AT:
            return False
        if self._asked_at is not None and now.mono - self._asked_at < _ASK_AGAIN_AFTER_S:
            return False
        self._asked_at = now.mono
        return True

    def allocated(self, first: ProducerId, count: int, error: ErrorCode) -> None:
        """The controller's answer."""
        self._asked_at = None
        if error:
            return
        if count > 0:
            self._ranges.append(range(first, first + count))
        for waiting in list(self.waiting):
            producer_id = self.take()
            if producer_id is None:
                return
            waiting.complete(InitProducerIdResponse(producer_id=producer_id, producer_epoch=0))

    def statistics(self) -> ProducerIdStatistics:
        return ProducerIdStatistics(self.left, self.given, len(self.waiting))

    def __repr__(self) -> str:
        return f"<ProducerIdBlocks left={self.left} waiting={len(self.waiting)}>"


class ProducerIdWaiting(Waiting):
    """A producer that waits for a block."""

    __slots__ = ("blocks",)

    def __init__(self, deadline: float, blocks: ProducerIdBlocks) -> None:
        super().__init__(deadline)
        self.blocks = blocks
        blocks.waiting[self] = None

    def expired(self, now: Now) -> None:
        """The controller gave no block in time: every client retries on this code."""
        self.complete(refused_init(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))

    def release(self) -> None:
        self.blocks.waiting.pop(self, None)


def refused_init(error: ErrorCode) -> InitProducerIdResponse:
    """No id, and why."""
    return InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)
