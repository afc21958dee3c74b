"""InitProducerId without a transactional id: the next number of a block from the controller.

Ids come in blocks (AllocateProducerIds), so that a node asks the controller once per thousand producers.  It
asks for the next block when nine tenths of the current one are used; requests that find no id wait.

A transactional id is refused: this node does not serve transactions yet.  The code is
TRANSACTIONAL_ID_AUTHORIZATION_FAILED, as for transactional batches in `produce`: nobody may use a
transactional id here.  At this code every client library stops at once; at all others some of them retry for
ever.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.context import Operation, RequestContext, ResourceType, allowed
from barnabas.broker.purgatory import Waiting
from barnabas.errors import ErrorCode
from barnabas.model import Now, ProducerId
from barnabas.wire.schemas.transactions import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from barnabas.broker.replicas.broker import Broker

__all__ = ["BLOCK_SIZE", "ProducerIdBlocks", "ProducerIdStatistics", "init_producer_id"]

BLOCK_SIZE = 1000
"""Ids in a block, as in Apache Kafka's controller."""
_ASK_AT = BLOCK_SIZE // 10
_PATIENCE = 20.0
_ASK_AGAIN_AFTER = 5.0


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
        self.waiting: dict[_InitWaiting, None] = {}

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
        if self._asked_at is not None and now.mono - self._asked_at < _ASK_AGAIN_AFTER:
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


class _InitWaiting(Waiting):
    """A producer that waits for a block."""

    __slots__ = ("blocks",)

    def __init__(self, deadline: float, blocks: ProducerIdBlocks) -> None:
        super().__init__(deadline)
        self.blocks = blocks
        blocks.waiting[self] = None

    def expired(self, now: Now) -> None:
        """The controller gave no block in time: every client retries on this code."""
        self.complete(_refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))

    def release(self) -> None:
        self.blocks.waiting.pop(self, None)


def init_producer_id(
    broker: Broker, context: RequestContext, request: InitProducerIdRequest, version: int, now: Now
) -> InitProducerIdResponse | Waiting:
    """Serve one InitProducerId request (KIP-98)."""
    if request.transactional_id is not None:
        return _refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not allowed(
        broker.authorizer, context, Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, "kafka-cluster"
    ):
        return _refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    blocks = broker.producer_ids
    producer_id = None if blocks.waiting else blocks.take()
    if blocks.should_ask(now):
        broker.outside.allocate_producer_ids()
    if producer_id is not None:
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
    waiting = _InitWaiting(now.mono + _PATIENCE, blocks)
    if not broker.room.add(waiting):
        waiting.release()
        return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return waiting


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)
