"""A transaction coordinator over a log in memory, a clock, brokers that write markers, and words for both."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from tests.broker.internal_partition import InternalPartition

from barnabas.broker.producer_id_blocks import ProducerIdBlocks
from barnabas.broker.transactions.coordinator import Transactions
from barnabas.broker.transactions.initializing import Given
from barnabas.broker.transactions.state import Transaction
from barnabas.config import Config
from barnabas.errors import ErrorCode
from barnabas.model import TRANSACTIONS_TOPIC, Now, TopicPartition
from barnabas.wire.schemas.transactions import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


class StatePartition(InternalPartition):
    """__transaction_state-0 in memory: what was appended, and up to where it is committed."""

    topic = TRANSACTIONS_TOPIC
    high_watermark = 0  # type: ignore[assignment]  # the test sets it, where the others compute it


class Image:
    """Topic `t` with partitions 0 to 3, which brokers 1 and 2 lead in turn."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.leaders = {TopicPartition("t", index): 1 + index % 2 for index in range(4)}
        self.topics_by_name = {TRANSACTIONS_TOPIC: SimpleNamespace(partitions={0: None})}

    def feature(self, name: str) -> int:
        assert name == "transaction.version"
        return self.version

    def partition(self, topic: str, index: int) -> Any:
        leader = self.leaders.get(TopicPartition(topic, index))
        return None if leader is None else SimpleNamespace(leader=leader)


class OneBroker:
    """What the coordinator needs of a broker; the test may hold writes back or let them fail."""

    clock_agrees = True

    def __init__(self, version: int) -> None:
        self.image = Image(version)
        self.authorizer = None
        self.producer_ids = ProducerIdBlocks()
        self.host = SimpleNamespace(allocate_producer_ids=self._asked)
        self.asked = 0
        self.hold = False
        self.held: list[Callable[[ErrorCode], None]] = []
        self.failure: ErrorCode | None = None

    def _asked(self) -> None:
        self.asked += 1

    def on_leadership(self, callback: Callable[..., None]) -> None:
        self.lead = callback

    def append(self, partition: Any, batch: bytearray, now: Now, on_done: Any, *, timeout_s: float) -> int:
        if self.failure is not None:
            on_done(self.failure)
            return -1
        partition.append(batch)
        if self.hold:
            self.held.append(on_done)
        else:
            partition.high_watermark = partition.log.log_end_offset
            on_done(ErrorCode.NONE)
        return 0

    def release(self, error: ErrorCode = ErrorCode.NONE) -> None:
        for done in self.held:
            done(error)
        self.held.clear()


class TransactionWorld:
    """`init`, `add`, `end` answer like the coordinator; `mark` lets the brokers write their markers."""

    def __init__(
        self, partition: StatePartition | None = None, *, version: int = 2, epoch: int = 5, **settings: str
    ) -> None:
        self.partition = partition or StatePartition()
        self.broker = OneBroker(version)
        self.broker.producer_ids.allocated(1000 * epoch, 1000, ErrorCode.NONE)
        config = Config.load({name.replace("_", "."): value for name, value in settings.items()})
        self.timed_out: list[str] = []
        """Each transaction that was aborted for its time: its id, and in how many partitions it was."""
        self.transactions = Transactions(
            config,
            self.broker,
            append=OneBroker.append,
            on_timeout=lambda id_, state: self.timed_out.append(f"{id_} {len(state.partitions)}"),
        )
        self.sent: list[tuple[int, WriteTxnMarkersRequest]] = []
        """Every request that a broker got, with the broker."""
        self.woken: set[int] = set()
        self.transactions.markers.wake = self.woken.add
        self.now = Now(1000.0, 1_700_000_000_000)
        self.broker.lead(self.partition, True, epoch)
        self.run()

    def run(self, seconds: float = 0.0) -> None:
        self.now = Now(self.now.mono + seconds, self.now.wall_ms + int(seconds * 1000))
        for _ in range(10):
            self.transactions.tick(self.now)

    # -- what producers ask --

    def init(self, id_: str = "x", *, given: tuple[int, int] | None = None, timeout_ms: int = 60_000) -> Any:
        """The error, or (producer id, epoch)."""
        known = Given(*given) if given is not None else None
        return self._producer(
            lambda done: self.transactions.initialize(id_, timeout_ms, known, self.now, done)
        )

    def add(self, producer: tuple[int, int], *partitions: int, id_: str = "x", client: int = 2) -> Any:
        """The error.  `client` is the transaction.version that the request stands for."""
        answers: list[ErrorCode] = []
        wanted = frozenset(TopicPartition("t", index) for index in partitions)
        self.transactions.add_partitions(id_, *producer, wanted, client, self.now, answers.append)
        return answers[0] if answers else None

    def end(self, producer: tuple[int, int], commit: bool = True, *, id_: str = "x", client: int = 2) -> Any:
        """The error, or (producer id, epoch) to go on with; None while it is not answered."""
        return self._producer(
            lambda done: self.transactions.end(id_, *producer, commit, client, self.now, done)
        )

    def _producer(self, ask: Callable[[Any], None]) -> Any:
        answers: list[Any] = []

        def done(error: ErrorCode, state: Transaction | None) -> None:
            answers.append(error or (state is not None and (state.producer_id, state.epoch)))

        ask(done)
        return answers[0] if answers else None

    def verify(self, producer: tuple[int, int], partition: int, id_: str = "x") -> ErrorCode:
        return self.transactions.verify(id_, *producer, TopicPartition("t", partition))

    # -- what brokers do --

    def mark(self, *brokers: int, error: ErrorCode = ErrorCode.NONE) -> list[WriteTxnMarkersRequest]:
        """These brokers (all, when none is named) take their requests and answer."""
        taken = []
        for broker in brokers or (1, 2):
            while (request := self.transactions.markers.next_request(broker)) is not None:
                taken.append(request)
                self.sent.append((broker, request))
                self.transactions.markers.answered(broker, written(request, error), self.now)
        return taken

    def state(self, id_: str = "x") -> str:
        return self.current(id_).state.title

    def current(self, id_: str = "x") -> Transaction:
        [owned] = self.transactions.log.all_owned()
        return owned.ids[id_].current


def written(request: WriteTxnMarkersRequest, error: ErrorCode = ErrorCode.NONE) -> WriteTxnMarkersResponse:
    """The answer of a broker to which all partitions of a request mean the same."""
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=index, error_code=error)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )
