"""A simulated transactional producer, of transaction.version 1 or 2 (KIP-98, KIP-447, KIP-890).

Several instances may use one transactional id.  Each goes on until it hears that it is fenced; some time later
it takes the id back, so that both are zombies in turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from barnabas.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.model import NO_EPOCH, NO_PRODUCER, NodeId, TopicPartition
from barnabas.sim.cluster.clients.transactions.record import Attempt, Written
from barnabas.sim.cluster.history import Outcome
from barnabas.sim.kernel.clock import EPOCH_MS
from barnabas.wire.records import Record, write_batch
from barnabas.wire.schemas.groups import FindCoordinatorRequest
from barnabas.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.schemas.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

if TYPE_CHECKING:
    from barnabas.sim.cluster.clients.contact import Contact
    from barnabas.sim.cluster.clients.producer import Values
    from barnabas.sim.cluster.history import History

__all__ = ["GROUP_KEY", "Hooks", "TransactionalProducer", "find_coordinator"]

GROUP_KEY, _TRANSACTION_KEY = 0, 1
_VERSIONS = {1: {"init": 5, "add": 3, "produce": 11, "end": 4, "offsets": 4}, 2: {}}
"""The versions of requests that a client of each transaction.version sends; {}: the latest."""
_FENCED = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
_DONE = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)


class _RefusedError(Exception):
    """The transaction cannot go on.  `fenced`: nor can its producer, in this epoch."""

    def __init__(self, code: ErrorCode | None) -> None:
        super().__init__(code)
        self.fenced = code in _FENCED


async def find_coordinator(contact: Contact, key: str, kind: int, where: TopicPartition) -> NodeId:
    """Ask whoever leads `where`, as good as any.  Raises BarnabasError when nobody says so."""
    leader = await contact.find(where)
    request = FindCoordinatorRequest(coordinator_keys=[key], key_type=kind)
    answer = (await contact.request(leader.node, request)).coordinators[0]
    if answer.error_code:
        raise KafkaError(ErrorCode(answer.error_code))
    contact.learn_address(answer.node_id, answer.host, answer.port)
    return int(answer.node_id)


class Hooks(Protocol):
    """Who hears what a producer does."""

    def asked(self, attempt: Attempt) -> None:
        """It asks for the end of a transaction, for the first time."""

    def ended(self, producer: TransactionalProducer, attempt: Attempt, epoch: int) -> None:
        """An end was answered; `epoch` is that of its markers."""

    def held_back(self, where: TopicPartition, request: ProduceRequest, how: dict[str, int]) -> None:
        """A request to produce is on its way, and has no hurry."""


class TransactionalProducer:
    """One instance.  `work` runs until it is told to `finish`, and leaves nothing open that it can end."""

    def __init__(
        self,
        contact: Contact,
        history: History,
        values: Values,
        numbers: Values,
        partitions: list[TopicPartition],
        *,
        transactional_id: str,
        version: int,
        interval: float,
        timeout_ms: int,
        hooks: Hooks,
    ) -> None:
        """`values` and `numbers` are shared by all instances; `interval` is seconds between transactions."""
        self.contact, self.history, self.values, self.numbers = contact, history, values, numbers
        self.partitions = partitions
        self.transactional_id = transactional_id
        self.group = f"group of {transactional_id}"
        self.version = version
        self.interval = interval
        self.timeout_ms = timeout_ms
        self.hooks = hooks
        self.process = history.process(f"{contact.name} ({transactional_id})")
        self.attempts: list[Attempt] = []
        self.producer_id, self.epoch = NO_PRODUCER, NO_EPOCH
        self.fenced = 0
        self.finishing = self.done = False
        self._sequences: dict[TopicPartition, int] = {}
        self._added: set[TopicPartition] = set()
        self._coordinators: dict[int, NodeId] = {}

    def __repr__(self) -> str:
        return f"<TransactionalProducer {self.contact.name} {self.transactional_id} epoch={self.epoch}>"

    def finish(self) -> None:
        """Begin no other transaction."""
        self.finishing = True

    async def work(self) -> None:
        """Everything."""
        rng = self.contact.rng
        while not self.finishing:
            await asyncio.sleep(rng.expovariate(1 / self.interval))
            try:
                if self.producer_id == NO_PRODUCER:
                    await self._initialize()
                if not self.finishing:
                    await self._transact()
            except _RefusedError as refused:
                self._forget()
                if refused.fenced:
                    self.fenced += 1
                    await asyncio.sleep(rng.uniform(0.2, 4.0))
        self.done = True

    def _forget(self) -> None:
        """What comes next asks for an identity first, which fences this one."""
        self.producer_id, self.epoch = NO_PRODUCER, NO_EPOCH

    # ---- one transaction ---------------------------------------------------------------------------------

    async def _initialize(self) -> None:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=self.timeout_ms
        )
        answer = await self._coordinator(_TRANSACTION_KEY, request, lambda got: got.error_code, "init")
        self._go_on(answer.producer_id, answer.producer_epoch)

    def _go_on(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self._sequences.clear()
        self.producer_id, self.epoch = producer_id, epoch

    async def _transact(self) -> None:
        rng, history = self.contact.rng, self.history
        attempt = Attempt(
            self.numbers.take(),
            self.transactional_id,
            self.contact.name,
            self.version,
            producer_id=self.producer_id,
        )
        self.attempts.append(attempt)
        row = history.begin(self.process)
        self._added.clear()
        commits = rng.random() < 0.7
        try:
            for _ in range(rng.choice((1, 2, 2, 3, 5))):
                await self._send(attempt, row, rng.choice(self.partitions), rng.choice((1, 1, 2, 4)))
                await asyncio.sleep(rng.choice((0.0, 0.0, 0.05, 0.5)))
            if rng.random() < 0.5:
                await self._commit_position(attempt)
            if not commits and rng.random() < 0.7:
                await self._hold_back(attempt, row, rng.choice(self.partitions))
        except _RefusedError as refused:
            if refused.fenced or not self._added:
                raise
            commits = False
        if rng.random() < 0.05:
            self._forget()  # it dies in the middle
            return
        await self._end(attempt, row, commits)

    async def _send(self, attempt: Attempt, row: int, where: TopicPartition, count: int) -> None:
        """A batch, again and again until it is acknowledged or refused for good."""
        contact, history = self.contact, self.history
        values, sends = self._new_records(row, where, count)
        await self._join(where)
        offset = await self._deliver(where, self._batch(where, values))
        self._sequences[where] = self._sequences.get(where, 0) + count
        for number, (send, value) in enumerate(zip(sends, values, strict=True)):
            stands = offset + number if offset >= 0 else -1
            history.acknowledged(send, stands, contact.time)
            attempt.records.append(Written(value, where, stands, send))

    def _new_records(self, row: int, where: TopicPartition, count: int) -> tuple[list[int], list[int]]:
        """Values, and their rows in the history."""
        values = [self.values.take() for _ in range(count)]
        name, at = f"{where.topic}-{where.partition}", self.contact.time
        return values, [self.history.send(self.process, name, one, at, transaction=row) for one in values]

    async def _join(self, where: TopicPartition) -> None:
        """Before the first batch for a partition its coordinator has to know (before transaction.version 2)."""
        if self.version == 1 and where not in self._added:
            await self._add(where)
        self._added.add(where)

    def _batch(self, where: TopicPartition, values: list[int]) -> bytes:
        at = EPOCH_MS + int(self.contact.time * 1000)
        return bytes(
            write_batch(
                [Record(n, at, None, b"%d" % value, ()) for n, value in enumerate(values)],
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                base_sequence=self._sequences.get(where, 0),
                transactional=True,
            )
        )

    def _produce(self, where: TopicPartition, batch: bytes) -> ProduceRequest:
        contact = self.contact
        data = PartitionProduceData(index=where.partition, records=batch)
        topic = TopicProduceData(name=where.topic, topic_id=contact.ids[where.topic], partition_data=[data])
        return ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=int(contact.timing.request * 500),
            topic_data=[topic],
        )

    async def _hold_back(self, attempt: Attempt, row: int, where: TopicPartition) -> None:
        """The last batch of a transaction that will be aborted: nobody waits for it, it comes late or never."""
        values, _ = self._new_records(row, where, 1)
        attempt.late += values
        await self._join(where)
        await self.contact.find(where)
        request = self._produce(where, self._batch(where, values))
        self.hooks.held_back(where, request, self._versioned("produce"))

    async def _deliver(self, where: TopicPartition, batch: bytes) -> int:
        contact = self.contact
        limit = contact.time + contact.timing.delivery
        while contact.time < limit:
            leader = await contact.find(where)
            request = self._produce(where, batch)
            try:
                answer = await contact.request(leader.node, request, **self._versioned("produce"))
            except BarnabasError:
                await self._trouble()
                continue
            data = answer.responses[0].partition_responses[0]
            code = ErrorCode(data.error_code)
            if code in _DONE:
                return int(data.base_offset)
            if code is not ErrorCode.CONCURRENT_TRANSACTIONS and not code.retriable:
                raise _RefusedError(code)
            await self._trouble()
        raise _RefusedError(None)

    async def _trouble(self) -> None:
        await self.contact.pause()
        await self.contact.refresh()

    async def _add(self, where: TopicPartition) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=where.topic, partitions=[where.partition])],
        )

        def code(answer: Any) -> int:
            return int(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)

        await self._coordinator(_TRANSACTION_KEY, request, code, "add")

    async def _commit_position(self, attempt: Attempt) -> None:
        """The group's position becomes the number of this transaction, if that is committed."""
        where = self.partitions[0]
        if self.version == 1:
            joined = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                group_id=self.group,
            )
            await self._coordinator(_TRANSACTION_KEY, joined, lambda got: got.error_code, "add_offsets")
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=self.group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=where.topic,
                    topic_id=self.contact.ids[where.topic],
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=where.partition, committed_offset=attempt.number
                        )
                    ],
                )
            ],
        )
        await self._coordinator(
            GROUP_KEY, request, lambda got: got.topics[0].partitions[0].error_code, "offsets"
        )
        attempt.position = attempt.number

    async def _end(self, attempt: Attempt, row: int, commits: bool) -> None:
        """Commit or abort.  What nobody answered has an unknown outcome, whatever a retry is told."""
        contact, history = self.contact, self.history
        attempt.commits, attempt.asked = commits, contact.time
        history.ending(row, commits, contact.time)
        self.hooks.asked(attempt)
        producer_id, epoch = self.producer_id, self.epoch
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=commits,
        )
        answer = await self._coordinator(_TRANSACTION_KEY, request, lambda got: got.error_code, "end")
        attempt.settled = commits
        history.ended(row, Outcome.OK, contact.time)
        self.hooks.ended(self, attempt, epoch + (self.version == 2))
        if answer.producer_id >= 0 and self.version == 2:
            self._go_on(answer.producer_id, answer.producer_epoch)
        elif not commits:
            self._forget()

    # ---- coordinators ------------------------------------------------------------------------------------

    def _versioned(self, what: str) -> dict[str, int]:
        version = _VERSIONS[self.version].get(what)
        return {} if version is None else {"version": version}

    async def _coordinator(self, kind: int, request: Any, code_of: Callable[[Any], int], what: str) -> Any:
        """Ask a coordinator until it says yes.  Raises _RefusedError when it never will, or time is up."""
        contact = self.contact
        limit = contact.time + 2 * contact.timing.delivery
        while contact.time < limit:
            try:
                if kind not in self._coordinators:
                    key = self.group if kind == GROUP_KEY else self.transactional_id
                    self._coordinators[kind] = await find_coordinator(contact, key, kind, self.partitions[0])
                answer = await contact.request(self._coordinators[kind], request, **self._versioned(what))
                code = ErrorCode(code_of(answer))
            except BarnabasError:
                self._coordinators.pop(kind, None)
                await self._trouble()
                continue
            if code is ErrorCode.NONE:
                return answer
            if code is not ErrorCode.CONCURRENT_TRANSACTIONS:
                if not code.retriable:
                    raise _RefusedError(code)
                self._coordinators.pop(kind, None)
            await contact.pause()
        raise _RefusedError(None)
