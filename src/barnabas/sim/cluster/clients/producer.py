"""A simulated producer: batches with sequence numbers, several in flight, resent until they are safe.

Each partition is a lane.  A lost or refused batch is sent again, in order, once nothing of the lane is in
flight any more.  A batch older than the delivery timeout is given up: it has failed if no attempt can have
worked; otherwise its outcome is unknown.  Then the lane continues with another producer id, without the
batches that might be there already.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from barnabas.errors import BarnabasError, ErrorCode
from barnabas.model import NO_NODE, NodeId, TopicPartition
from barnabas.sim.kernel.clock import EPOCH_MS
from barnabas.sim.kernel.report import InvariantViolation
from barnabas.wire.records import Record, write_batch
from barnabas.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.schemas.transactions import InitProducerIdRequest

if TYPE_CHECKING:
    from barnabas.sim.cluster.clients.contact import Contact
    from barnabas.sim.cluster.history import History

__all__ = ["Manner", "Producer", "Values"]

_DONE = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
_OTHER_IDENTITY = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.UNKNOWN_PRODUCER_ID,
)


class Values:
    """Gives out the values of a history: each is sent once."""

    def __init__(self) -> None:
        self.next = 0

    def take(self) -> int:
        self.next += 1
        return self.next


class Manner(NamedTuple):
    """What kind of producer."""

    idempotent: bool
    acks: int = -1
    in_flight: int = 5
    repeats: bool = True
    """Whether it tries again; else the first refusal is final."""

    def __str__(self) -> str:
        kind = "idempotent" if self.idempotent else "plain"
        return (
            f"{kind} acks={self.acks} in flight {self.in_flight}{'' if self.repeats else ' without retries'}"
        )


class Batch:
    """Records on their way.  `maybe`: an attempt may have worked."""

    __slots__ = ("attempts", "created", "maybe", "number", "rows", "sent", "sequence", "values")

    def __init__(self, values: list[int], rows: list[int], created: float) -> None:
        self.values = values
        self.rows = rows
        self.created = created
        self.number = -1
        self.sequence = -1
        self.sent = False
        self.maybe = False
        self.attempts = 0

    def __repr__(self) -> str:
        return f"<Batch {self.values} sequence={self.sequence}>"


class Producer:
    """One producer process.  `work` runs until it is told to `finish`, and then until nothing is left."""

    def __init__(
        self,
        contact: Contact,
        history: History,
        values: Values,
        partitions: list[TopicPartition],
        manner: Manner,
        interval: float,
    ) -> None:
        self.contact = contact
        self.history = history
        self.values = values
        self.manner = manner
        self.interval = interval
        """Mean seconds between two batches."""
        self.process = history.process(f"{contact.name} ({manner})", repeats=not manner.idempotent)
        self.lanes = [Lane(self, where) for where in partitions]
        self.acknowledged = self.given_up = self.failed = 0
        self.on_acknowledged: Callable[[TopicPartition, int, NodeId, int], None] = lambda *_: None
        """Told of every acks=all: where, up to which offset, by whom, in which run."""
        self.finishing = False
        self.done = False

    def __repr__(self) -> str:
        return f"<Producer {self.contact.name} {self.manner} acknowledged={self.acknowledged}>"

    async def work(self) -> None:
        """Everything."""
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(lane.work(), name=str(lane)) for lane in self.lanes]
        rng = self.contact.rng
        while not self.finishing:
            await asyncio.sleep(rng.expovariate(1 / self.interval))
            lane = rng.choice(self.lanes)
            if len(lane.queue) < 30 and not self.finishing:
                lane.put(rng.choice((1, 1, 2, 5)))
        for lane in self.lanes:
            lane.wake.set()
        for task in tasks:
            await task
        self.done = True

    def finish(self) -> None:
        """Send nothing new; `done` once the fate of everything is known."""
        self.finishing = True


class Lane:
    """What one producer sends to one partition, in order."""

    def __init__(self, producer: Producer, where: TopicPartition) -> None:
        self.producer = producer
        self.contact = producer.contact
        self.where = where
        self.queue: deque[Batch] = deque()
        self.wake = asyncio.Event()
        self.in_flight = 0
        self.leader: NodeId = NO_NODE
        """Where what is in flight went: nothing goes to another leader meanwhile."""
        self.troubled = False
        """An attempt failed: nothing more goes out until nothing is under way."""
        self.identity: tuple[int, int] | None = None
        self.sequence = 0
        self.next_number = 0

    def __repr__(self) -> str:
        return f"<Lane {self.contact.name} {self.where} queue={len(self.queue)} in_flight={self.in_flight}>"

    def put(self, count: int) -> None:
        """Records to be sent."""
        producer, now = self.producer, self.contact.time
        name = f"{self.where.topic}-{self.where.partition}"
        values = [producer.values.take() for _ in range(count)]
        rows = [producer.history.send(producer.process, name, value, now) for value in values]
        self.queue.append(Batch(values, rows, now))
        self.wake.set()

    async def work(self) -> None:
        """Bring everything to its leader."""
        while not (self.producer.finishing and not self.queue and not self.in_flight):
            self.wake.clear()
            if self.in_flight == 0:
                self._expire()
                if self.troubled and self.queue:
                    await self.contact.pause()
                    await self.contact.refresh()
                self.troubled = False
            if (
                not self.queue
                or self.troubled
                or self.in_flight >= self.producer.manner.in_flight
                or not await self._send_next()
            ):
                await self._rest()

    async def _rest(self) -> None:
        if self.wake.is_set():
            return
        try:
            async with asyncio.timeout(1.0):
                await self.wake.wait()
        except TimeoutError:
            return

    # ---- sending -----------------------------------------------------------------------------------------

    async def _send_next(self) -> bool:
        """Begin to send the first batch that is not under way; false when there is none."""
        batch = next((batch for batch in self.queue if not batch.sent), None)
        if batch is None or (batch.number < 0 and self._far_behind()):
            return False
        try:
            leader = self.contact.leader(self.where)
            if leader is None or self.where.topic not in self.contact.ids:
                self.troubled = True
                return True
            if self.in_flight and leader.node != self.leader:
                return False
            if self.producer.manner.idempotent and self.identity is None:
                await self._identify(leader.node)
            connection = await self.contact.connection(leader.node)
        except BarnabasError:
            self.troubled = True
            return True
        if self.troubled:
            return True
        manner = self.producer.manner
        if batch.number < 0:
            batch.number, self.next_number = self.next_number, self.next_number + 1
        if manner.idempotent and batch.sequence < 0:
            batch.sequence = self.sequence
            self.sequence += len(batch.values)
        request = ProduceRequest(
            acks=manner.acks,
            timeout_ms=int(self.contact.timing.request * 500),
            topic_data=[
                TopicProduceData(
                    name=self.where.topic,
                    topic_id=self.contact.ids[self.where.topic],
                    partition_data=[
                        PartitionProduceData(index=self.where.partition, records=self._encode(batch))
                    ],
                )
            ],
        )
        self.leader = leader.node
        batch.sent = True
        batch.attempts += 1
        self.in_flight += 1
        answer = connection.request(request, timeout=self.contact.timing.request)
        task = asyncio.get_running_loop().create_task(answer, name="produce")
        run_number = self.contact.machine.world.nodes[leader.node].run_number
        task.add_done_callback(lambda task: self._answered(batch, leader.node, run_number, task))
        return True

    def _far_behind(self) -> bool:
        """Whether so many later batches are written that a leader would not know the first one again."""
        first = self.queue[0].number
        return first >= 0 and self.next_number - first >= self.producer.manner.in_flight

    async def _identify(self, node: int) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
        answer = await self.contact.request(node, request)
        if answer.error_code:
            raise BarnabasError(f"no producer id: {answer.error_code}")
        self.identity = (answer.producer_id, answer.producer_epoch)
        self.sequence = 0

    def _encode(self, batch: Batch) -> bytes:
        at = EPOCH_MS + int(batch.created * 1000)
        filler = b"." * (batch.values[0] % 97)
        records = [Record(n, at, None, b"%d %b" % (v, filler), ()) for n, v in enumerate(batch.values)]
        if self.identity is None:
            return bytes(write_batch(records))
        producer_id, epoch = self.identity
        return bytes(
            write_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=batch.sequence)
        )

    # ---- being answered ----------------------------------------------------------------------------------

    def _answered(self, batch: Batch, leader: NodeId, run_number: int, task: asyncio.Task[object]) -> None:
        self.in_flight -= 1
        self.wake.set()
        batch.sent = False
        if task.cancelled() or batch not in self.queue:
            return
        error = task.exception()
        if error is not None:
            if not isinstance(error, BarnabasError):
                raise error
            batch.maybe = True
            self._refused(batch, None)
            return
        answer = task.result().responses[0].partition_responses[0]  # type: ignore[attr-defined]  # ProduceResponse
        code = ErrorCode(answer.error_code)
        if code in _DONE:
            self._acknowledged(batch, answer.base_offset)
            if self.producer.manner.acks == -1 and answer.base_offset >= 0:
                end = answer.base_offset + len(batch.rows)
                self.producer.on_acknowledged(self.where, end, leader, run_number)
            return
        if answer.current_leader.leader_id >= 0:
            self.contact.learn(
                self.where, answer.current_leader.leader_id, answer.current_leader.leader_epoch
            )
        batch.maybe |= not code.definite
        self._refused(batch, code)

    def _acknowledged(self, batch: Batch, offset: int) -> None:
        producer, now = self.producer, self.contact.time
        self.queue.remove(batch)
        producer.acknowledged += len(batch.rows)
        for number, row in enumerate(batch.rows):
            if producer.manner.acks == -1:
                producer.history.acknowledged(row, offset + number if offset >= 0 else -1, now)
            else:
                producer.history.given_up(row, now)  # one node's word: nothing guarantees it

    def _refused(self, batch: Batch, code: ErrorCode | None) -> None:
        manner, head = self.producer.manner, self.queue[0] is batch
        self.troubled = True
        if code in _OTHER_IDENTITY and head:
            if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                raise InvariantViolation(
                    "P1",
                    f"{self.contact.name} sent sequence {batch.sequence} of producer {self.identity} to "
                    f"{self.where}, all before it are acknowledged, and the leader says {code.name}",
                )
            self._new_identity()
        elif not manner.repeats or (code is not None and not code.retriable and code not in _OTHER_IDENTITY):
            self._give_up(batch)
            if manner.idempotent:
                self._new_identity()

    def _expire(self) -> None:
        """Nothing is in flight: give up what is too old, and all that may be written under the old identity."""
        limit = self.contact.time - self.contact.timing.delivery
        old = [batch for batch in self.queue if batch.created < limit]
        for batch in old:
            self._give_up(batch)
        if self.producer.manner.idempotent and any(batch.sequence >= 0 for batch in old):
            self._new_identity()

    def _give_up(self, batch: Batch) -> None:
        producer, now = self.producer, self.contact.time
        self.queue.remove(batch)
        for row in batch.rows:
            if batch.maybe or batch.sent:
                producer.history.given_up(row, now)
                producer.given_up += 1
            else:
                producer.history.failed(row, now)
                producer.failed += 1

    def _new_identity(self) -> None:
        self.identity = None
        for batch in [batch for batch in self.queue if batch.maybe or batch.sent]:
            self._give_up(batch)
        for batch in self.queue:
            batch.sequence = -1
