"""What a start makes of a damaged directory, as its operator and its clients see it.

recovered   all that was acknowledged is there
told        something is not, and an event names the log, or the client that asks for it gets an error
refused     the node does not start, in one line with a next step
silent      something is not there, and nobody is told
hang        no start and no refusal; or a client that waits for records that never come
crash       an error nobody foresaw
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any, NamedTuple

from tests.damage.directory import GROUP, TOPICS, Made, commit, send, settings

from barnabas.client.aio import AsyncConnection
from barnabas.errors import BarnabasError, CorruptRecordError
from barnabas.server.node.process import ServerNode
from barnabas.wire.records import Record, batches, check_crc, read_records
from barnabas.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.schemas.groups import OffsetFetchRequest, OffsetFetchRequestTopic
from barnabas.wire.schemas.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

LOUD = {
    "log.lost",
    "log.cut",
    "log.damaged",
    "log.set-aside",
    "log.partition-not-hosted",
    "log.directory-offline",
}
START_S = 20.0


class Verdict(NamedTuple):
    word: str
    detail: str

    @property
    def good(self) -> bool:
        return self.word in ("recovered", "told", "refused")


class _Events(logging.Handler):
    """The events that say that something was lost."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []
        self.traces: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "event", "") in LOUD:
            fields: dict[str, object] = getattr(record, "fields", {})
            self.said.append(f"{record.event} {fields}")  # type: ignore[attr-defined]
        if record.exc_info:
            self.traces.append(record.getMessage())


class _Read(NamedTuple):
    """What a consumer got of a partition: records by offset, and the errors it was told."""

    records: dict[int, Record]
    errors: list[str]


async def judge(folder: Path, made: Made) -> Verdict:
    """Start a node on the directory, and read everything."""
    events = _Events()
    logger = logging.getLogger("barnabas")
    logger.addHandler(events)
    node = ServerNode(settings(folder))
    try:
        try:
            async with asyncio.timeout(START_S):
                await node.start()
        except TimeoutError:
            return Verdict("hang", "the node neither starts nor says why")
        except BarnabasError as error:
            if not error.next_step:
                return Verdict("crash", f"no next step: {error}")
            return Verdict("refused", str(error))
        try:
            async with asyncio.timeout(START_S):
                return await _compare(node, made, events)
        except TimeoutError:
            return Verdict("hang", "a client waits for ever")
        finally:
            await node.stop()
    except Exception as error:
        return Verdict("crash", repr(error))
    finally:
        logger.removeHandler(events)


async def _compare(node: ServerNode, made: Made, events: _Events) -> Verdict:
    missing: list[str] = []
    async with await AsyncConnection.connect(*node.address) as connection:
        for topic, partitions in TOPICS.items():
            for index in range(partitions):
                found = await _consume(connection, topic, index)
                lacks = _lacks(found, made, topic, index)
                if lacks and not found.errors and not _named(events, f"{topic}-{index}"):
                    return Verdict("silent", f"{topic}-{index} lacks {lacks[:5]}")
                if lacks:
                    missing.append(
                        f"{topic}-{index}: {len(lacks)} records: {(found.errors + events.said)[:1]}"
                    )
                await send(connection, topic, index, [Record(0, 1, b"k", b"more", ())])
        lost = await _offsets_lost(connection, made)
        if lost == "silent" and not _named(events, "__consumer_offsets"):
            return Verdict("silent", "committed offsets are gone")
        if lost:
            missing.append(f"group offsets: {lost}")
    if events.traces:
        return Verdict("crash", f"a traceback: {events.traces[0]}")
    return Verdict("told", "; ".join(missing)) if missing else Verdict("recovered", "; ".join(events.said))


def _named(events: _Events, what: str) -> bool:
    """Whether an event names a log."""
    return any(f"/{what}" in said or f"'{what.rpartition('-')[0]}'" in said for said in events.said)


def _lacks(found: _Read, made: Made, topic: str, index: int) -> list[object]:
    if topic == "keyed":
        last = {record.key: record.value for _, record in sorted(found.records.items())}
        return [key for key, value in made.keyed.items() if last.get(key) != value]
    expected = made.events[index]
    return [
        offset
        for offset, value in enumerate(expected)
        if offset not in found.records or found.records[offset].value != value
    ]


async def _consume(connection: AsyncConnection, topic: str, index: int) -> _Read:
    """Read from the start to the end, as a consumer that goes on behind what it cannot read."""
    read = _Read({}, [])
    bounds = [await _offset(connection, topic, index, timestamp, read) for timestamp in (-2, -1)]
    offset, end = bounds
    tries = 0
    while 0 <= offset < end:
        records = await _fetch(connection, topic, index, offset, read)
        before = offset
        if records is not None:
            offset = _take(records, offset, read)
        if offset == before:
            tries += 1
            if records is None or tries == 3:  # an error, or the same bad batch again
                offset, tries = offset + 1, 0
            if records == b"" and tries == 2:
                raise TimeoutError
    return read


def _take(records: bytes, offset: int, read: _Read) -> int:
    """The records of an answer, up to the first batch that is not what it says; where to go on."""
    try:
        for position, header in batches(records):
            if not check_crc(records, position, header):
                read.errors.append(f"the CRC of the batch at {header.base_offset} is wrong")
                return offset
            if header.last_offset < offset:
                read.errors.append(f"offset {header.last_offset} where {offset} was asked for")
                return offset
            for record in read_records(records, position, header):
                read.records[record.offset] = record
            offset = header.last_offset + 1
    except CorruptRecordError as error:
        read.errors.append(error.message)
    return offset


async def _offset(connection: AsyncConnection, topic: str, index: int, timestamp: int, read: _Read) -> int:
    partition = ListOffsetsPartition(partition_index=index, timestamp=timestamp)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=[partition])])
    answer: Any = await connection.request(request, 5)
    found = answer.topics[0].partitions[0]
    if found.error_code:
        read.errors.append(f"error {found.error_code}")
        return -1
    return int(found.offset)


async def _fetch(
    connection: AsyncConnection, topic: str, index: int, offset: int, read: _Read
) -> bytes | None:
    partition = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=4096)
    request = FetchRequest(
        max_wait_ms=0, max_bytes=4096, topics=[FetchTopic(topic=topic, partitions=[partition])]
    )
    answer: Any = await connection.request(request, 11)
    found = answer.responses[0].partitions[0]
    if found.error_code:
        read.errors.append(f"error {found.error_code}")
        return None
    return bytes(found.records or b"")


async def _offsets_lost(connection: AsyncConnection, made: Made) -> str:
    """Whether committed offsets are gone: "" not, "told", or "silent"."""
    topics = [OffsetFetchRequestTopic(name="events", partition_indexes=list(made.committed))]
    for _ in range(100):
        answer: Any = await connection.request(OffsetFetchRequest(group_id=GROUP, topics=topics), 5)
        if answer.error_code != 14:  # the coordinator is loading
            break
        await asyncio.sleep(0.02)
    if answer.error_code:
        return "told"
    found = {row.partition_index: row.committed_offset for row in answer.topics[0].partitions}
    if found == made.committed:
        return "" if not await commit(connection, 0, 1) else "told"
    return "silent"
