"""Simulated consumers: one partition at a time from positions of their own, and the last readers, who read
everything once it is quiet."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from barnabas.client.fetching import whole_batches
from barnabas.errors import BarnabasError, CorruptRecordError, ErrorCode, WireError
from barnabas.model import TopicPartition
from barnabas.sim.kernel.report import InvariantViolation
from barnabas.wire.records import batches, check_crc, read_records
from barnabas.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.schemas.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

if TYPE_CHECKING:
    from barnabas.sim.cluster.clients.contact import Contact, Leader
    from barnabas.sim.cluster.history import History
    from barnabas.wire.records import BatchHeader

__all__ = ["EARLIEST", "Consumer", "LastReader", "Reader", "Reading"]

_LATEST, EARLIEST = -1, -2
_LARGEST = 1 << 20


class Reading:
    """A consumer's place in one partition."""

    __slots__ = ("epoch", "position", "where")

    def __init__(self, where: TopicPartition, position: int = 0) -> None:
        self.where = where
        self.position = position
        self.epoch = -1
        """The leader epoch of the last batch that it read."""

    @property
    def name(self) -> str:
        return f"{self.where.topic}-{self.where.partition}"


def _damaged(reading: Reading, data: Any) -> bool:
    """Return whether a batch of an answer cannot be read, or says that it has offsets that cannot be its own."""
    records = data.records or b""
    try:
        whole_batches(reading.name, records, reading.position, data.high_watermark)
        for at, header in batches(
            records
        ):  # to the last byte: those take what stands before bytes that are none
            if not check_crc(records, at, header):
                return True
            read_records(records, at, header, _LARGEST)
    except CorruptRecordError:
        return True
    return False


class Reader:
    """What consumers have in common: fetch, take apart, write down."""

    final = False
    isolation = 0
    """isolation.level of its requests: 0 read_uncommitted, 1 read_committed."""

    def __init__(self, contact: Contact, history: History, partitions: list[TopicPartition]) -> None:
        self.contact = contact
        self.history = history
        self.process = history.process(contact.name)
        self.readings = [Reading(where) for where in partitions]
        self.records = 0
        for reading in self.readings:
            history.assigned(self.process, reading.name)

    async def fetch(self, reading: Reading, *, max_bytes: int, wait: float) -> int | None:
        """One fetch: how many records it brought, None when it failed."""
        contact, begun = self.contact, self.contact.time
        leader = await contact.find(reading.where)
        request = FetchRequest(
            max_wait_ms=int(wait * 1000),
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=self.isolation,
            topics=[
                FetchTopic(
                    topic=reading.where.topic,
                    topic_id=contact.ids[reading.where.topic],
                    partitions=[
                        FetchPartition(
                            partition=reading.where.partition,
                            current_leader_epoch=leader.epoch,
                            fetch_offset=reading.position,
                            last_fetched_epoch=reading.epoch,
                            partition_max_bytes=max_bytes,
                        )
                    ],
                )
            ],
        )
        try:
            answer = await contact.request(leader.node, request, timeout=contact.timing.request + wait)
        except BarnabasError as error:
            self._check_wire(error)
            await self._trouble()
            return None
        data = answer.responses[0].partitions[0] if answer.responses else None
        if answer.error_code or data is None or data.error_code:
            await self._refused(reading, leader, ErrorCode(data.error_code if data is not None else 5))
            return None
        if data.diverging_epoch.end_offset >= 0:
            raise InvariantViolation(
                "P1",
                f"{contact.name} read {reading.name} up to {reading.position} in epoch {reading.epoch}; leader "
                f"{leader.node} of epoch {leader.epoch} says that epoch {data.diverging_epoch.epoch} ended "
                f"at {data.diverging_epoch.end_offset}",
            )
        excuses = contact.machine.world.excuses
        if excuses is not None and _damaged(reading, data) and excuses(leader.node):
            await self._trouble()  # as a client does that checks: it asks again, perhaps another leader
            return None
        return self._take(reading, data, begun)

    def _take(self, reading: Reading, data: Any, begun: float) -> int:
        records: list[tuple[int, int]] = []
        position = reading.position
        try:
            for at, header in batches(data.records or b""):
                if not check_crc(data.records, at, header):
                    raise InvariantViolation(
                        "S1", f"{self.contact.name}: a batch of {reading.name} has a wrong CRC"
                    )
                if header.last_offset < position:
                    continue
                reading.epoch = max(reading.epoch, header.leader_epoch)
                if not header.is_control and not self.leaves_out(header, data):
                    for record in read_records(data.records, at, header, _LARGEST):
                        if record.offset >= position:
                            records.append((record.offset, int((record.value or b"-1").split()[0])))
                elif header.is_control:
                    self.ended(header)
                position = header.last_offset + 1
        except CorruptRecordError as error:
            raise InvariantViolation(
                "S1", f"{self.contact.name} read from {reading.name}: {error}"
            ) from error
        self.history.poll(
            self.process,
            reading.name,
            reading.position,
            begun,
            self.contact.time,
            records,
            high_watermark=data.high_watermark,
            final=self.final,
            committed=self.isolation == 1,
        )
        reading.position = position
        self.records += len(records)
        return len(records)

    def leaves_out(self, header: BatchHeader, data: Any) -> bool:
        """Whether the records of a batch, in the answer `data` about a partition, are not for this reader."""
        return False

    def ended(self, header: BatchHeader) -> None:
        """A marker ends the transaction of its producer."""

    def _check_wire(self, error: BarnabasError) -> None:
        if isinstance(error, WireError):
            raise InvariantViolation(
                "P3", f"{self.contact.name} got an answer that is none: {error}"
            ) from error

    async def _refused(self, reading: Reading, leader: Leader, code: ErrorCode) -> None:
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._out_of_range(reading, leader)
        else:
            await self._trouble()

    async def _trouble(self) -> None:
        await self.contact.pause()
        await self.contact.refresh()

    async def _out_of_range(self, reading: Reading, leader: Leader) -> None:
        """Below the start: records were deleted.  Beyond the end: what was read is gone."""
        start = await self.offset(reading, EARLIEST)
        if start is None:
            return
        if start <= reading.position and self.contact.leader(reading.where) == leader:
            raise InvariantViolation(
                "P1",
                f"{self.contact.name} read {reading.name} up to {reading.position}; leader {leader.node} "
                f"of epoch {leader.epoch} calls that out of range, its log begins at {start}",
            )
        if start > reading.position:
            self.seek(reading, start)

    def seek(self, reading: Reading, position: int) -> None:
        """Go on somewhere else."""
        reading.position = position
        reading.epoch = -1
        self.history.assigned(self.process, reading.name)

    async def offset(self, reading: Reading, timestamp: int) -> int | None:
        """Where the partition begins or ends; None when nobody says so now."""
        contact, begun = self.contact, self.contact.time
        leader = await contact.find(reading.where)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=self.isolation,
            topics=[
                ListOffsetsTopic(
                    name=reading.where.topic,
                    partitions=[
                        ListOffsetsPartition(
                            partition_index=reading.where.partition,
                            current_leader_epoch=leader.epoch,
                            timestamp=timestamp,
                        )
                    ],
                )
            ],
        )
        try:
            answer = await contact.request(leader.node, request)
        except BarnabasError as error:
            self._check_wire(error)
            await self._trouble()
            return None
        row = answer.topics[0].partitions[0]
        if row.error_code:
            await self._trouble()
            return None
        if timestamp == _LATEST:
            await self.told_end(reading, row.offset, begun)
        return int(row.offset)

    async def told_end(self, reading: Reading, end: int, begun: float) -> None:
        """An answer to what was asked at `begun` says where a partition ends."""
        self.history.end(self.process, reading.name, end, begun, self.contact.time)


class Consumer(Reader):
    """Reads on and on, seeks now and then, asks for the end now and then."""

    def __init__(
        self, contact: Contact, history: History, partitions: list[TopicPartition], interval: float
    ) -> None:
        super().__init__(contact, history, partitions)
        self.interval = interval
        self.finishing = False
        self.done = False
        self._epochs: dict[TopicPartition, int] = {}

    async def work(self) -> None:
        """Everything."""
        rng = self.contact.rng
        while not self.finishing:
            reading = rng.choice(self.readings)
            what = rng.random()
            if what < 0.02:
                self.seek(reading, rng.randint(0, reading.position))
            elif what < 0.05 or self._led_anew(reading.where):
                await self.offset(reading, _LATEST)
            else:
                await self.fetch(
                    reading,
                    max_bytes=rng.choice((1, 500, 5_000, _LARGEST)),
                    wait=rng.choice((0.0, 0.1, 0.5)),
                )
            await asyncio.sleep(rng.expovariate(1 / self.interval))
        self.done = True

    def _led_anew(self, where: TopicPartition) -> bool:
        """Whether another leader leads since this was asked last: where it says the end is, is of interest."""
        leader = self.contact.leader(where)
        if leader is None or self._epochs.get(where) == leader.epoch:
            return False
        self._epochs[where] = leader.epoch
        return True

    def finish(self) -> None:
        """Read no more."""
        self.finishing = True


class LastReader(Reader):
    """Reads everything, from the start to the end."""

    final = True

    def __init__(self, contact: Contact, history: History, where: TopicPartition) -> None:
        super().__init__(contact, history, [where])
        self.done = False

    async def work(self) -> None:
        """Everything, once."""
        reading = self.readings[0]
        start = end = None
        while start is None:
            start = await self.offset(reading, EARLIEST)
        while end is None:
            end = await self.offset(reading, _LATEST)
        self.seek(reading, start)
        while reading.position < end:
            await self.fetch(reading, max_bytes=_LARGEST, wait=0.1)
        self.history.finished(reading.name, start, end)
        self.done = True
