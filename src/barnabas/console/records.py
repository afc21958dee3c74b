"""Some records of a partition, to be looked at: few, in bounded memory, and in bounded time."""

from __future__ import annotations

import time
from typing import NamedTuple

from barnabas.client.admin.admin import Admin
from barnabas.client.consuming.fetched import FetchLimits, fetch_request
from barnabas.errors import CorruptRecordError, ErrorCode, KafkaError
from barnabas.model import Offset, TopicPartition
from barnabas.wire.records import BatchHeader, Record, batches, check_crc, read_records
from barnabas.wire.schemas.fetch import FetchRequest

__all__ = ["MOST_RECORDS", "Excerpt", "excerpt", "shown"]

MOST_RECORDS = 50
MOST_BYTES = 1 << 20
"""Of one fetch; a batch that is larger comes whole."""
MOST_UNPACKED = 8 << 20
MOST_IN_A_BATCH = 50_000
"""Records of a batch that are made for the few that are shown."""
MOST_FETCHES = 5
LONGEST_S = 8.0
LONGEST_TEXT = 2000
"""Characters of a value; a key and a header have a tenth."""


class Excerpt(NamedTuple):
    """Records from `first` on; the partition has `start` to `end`.  `unread` says what was not read, and why."""

    start: Offset
    end: Offset
    first: Offset
    records: tuple[Record, ...]
    unread: tuple[str, ...]
    following: Offset


def excerpt(admin: Admin, topic: str, partition: int, first: Offset | None) -> Excerpt:
    """At most MOST_RECORDS from `first` on (None: the last ones).  Raises BarnabasError."""
    admin.describe_topic(topic).partition(partition)
    start = admin.offsets(topic, "earliest", [partition])[partition].offset
    end = admin.offsets(topic, "latest", [partition])[partition].offset
    at = max(end - MOST_RECORDS, start) if first is None else min(max(first, start), end)
    records: list[Record] = []
    unread: list[str] = []
    following, deadline = at, time.monotonic() + LONGEST_S
    for _ in range(MOST_FETCHES):
        if following >= end or len(records) >= MOST_RECORDS or time.monotonic() > deadline:
            break
        before = following
        for found, last, why in _fetched(admin, TopicPartition(topic, partition), following):
            following = last + 1
            unread += [why] if why else []
            records += [one for one in found if at <= one.offset]
            if len(records) >= MOST_RECORDS:
                break
        if following == before:
            break
    if len(records) > MOST_RECORDS:
        del records[MOST_RECORDS:]
        following = records[-1].offset + 1
    return Excerpt(start, end, at, tuple(records), tuple(unread), following)


def _fetched(admin: Admin, tp: TopicPartition, at: Offset) -> list[tuple[list[Record], Offset, str]]:
    """What one fetch brings, batch by batch: its records, its last offset, and why there are none."""
    cluster = admin.cluster
    connection = cluster.to_leader(*tp)
    request, version = fetch_request(
        {tp: at},
        {tp.topic: cluster.topic(tp.topic).id},
        connection.version_of(FetchRequest),
        isolation=0,
        limits=FetchLimits(0.5, MOST_BYTES, MOST_BYTES),
    )
    answer = connection.request(request, version)
    code = answer.error_code or next(
        (part.error_code for topic in answer.responses for part in topic.partitions), 0
    )
    if code:
        raise KafkaError(ErrorCode(code), f"fetching {tp} at offset {at}")
    buffer = memoryview(
        b"".join(part.records or b"" for topic in answer.responses for part in topic.partitions)
    )
    return [_one(buffer, where, header) for where, header in batches(buffer)]


def _one(buffer: memoryview, where: int, header: BatchHeader) -> tuple[list[Record], Offset, str]:
    """One batch.  Markers of transactions are passed over."""
    last = max(header.last_offset, header.base_offset)
    which = f"offsets {header.base_offset} to {last}"
    if header.is_control:
        return [], last, ""
    if header.count > MOST_IN_A_BATCH:
        return [], last, f"{which}: a batch of {header.count:,} records is not opened here"
    try:
        if not check_crc(buffer, where, header):
            return [], last, f"{which}: the batch does not match its CRC"
        return read_records(buffer, where, header, MOST_UNPACKED), last, ""
    except CorruptRecordError as error:
        return [], last, f"{which}: {error.message}"


def shown(content: bytes | None, longest: int = LONGEST_TEXT) -> str:
    """Bytes as text: what is no UTF-8 is spelled out, and what is long is cut."""
    if content is None:
        return "(null)"
    text = content[: 4 * longest].decode("utf-8", "backslashreplace")
    if len(text) > longest or len(content) > 4 * longest:
        return f"{text[:longest]}... ({len(content):,} bytes)"
    return text
