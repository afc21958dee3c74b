"""Readers of the matrix: one that checks nothing and so sees what a node serves, one that checks as clients do."""

from __future__ import annotations

import contextlib
import threading
import time
import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from barnabas.client.blocking import BlockingConnection
from barnabas.client.consumer import Consumer
from barnabas.client.metadata import parse_bootstrap
from barnabas.errors import BarnabasError, CorruptRecordError
from barnabas.model import TopicPartition
from barnabas.wire.records import batches, check_crc, read_records
from barnabas.wire.schemas.cluster import MetadataRequest, MetadataRequestTopic
from barnabas.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.schemas.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

__all__ = ["Found", "Reading", "read", "value_of"]

_FETCHED = 256 << 10
_PAUSE_S = 0.3
_SKIPS = 3000
"""Offsets that the last reader tries one by one where the log cannot be read."""


def value_of(name: str, number: int, size: int) -> bytes:
    """Return a record's value, which says itself whether it is whole."""
    body = f"{name} {number} ".encode().ljust(size, b".")
    return body + b"%08x" % zlib.crc32(body)


def _whole(value: bytes | None) -> bool:
    return value is not None and value[-8:] == b"%08x" % zlib.crc32(value[:-8])


class Found(NamedTuple):
    """What was read: good values by offset, offsets of bad batches, and the offsets at which a node refused."""

    good: dict[int, bytes]
    bad: list[int]
    refused: list[int]


class _Lines:
    """Connections to the nodes that can be reached."""

    def __init__(self, bootstrap: str) -> None:
        self._addresses = parse_bootstrap(bootstrap.split(","))
        self._open: dict[tuple[str, int], BlockingConnection] = {}

    def ask(self, address: tuple[str, int], request: Any, version: int) -> Any:
        try:
            if address not in self._open:
                self._open[address] = BlockingConnection(*address, timeout=5.0, connect_timeout=1.0)
            return self._open[address].request(request, version)
        except (BarnabasError, OSError):
            self.forget(address)
            raise

    def forget(self, address: tuple[str, int]) -> None:
        if (line := self._open.pop(address, None)) is not None:
            line.close()

    def close(self) -> None:
        for address in list(self._open):
            self.forget(address)

    def leaders(self, topic: str) -> dict[int, tuple[str, int]]:
        """Where each partition of the topic is led.  Raises BarnabasError where no node answers."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        last: Exception = BarnabasError(f"no node knows {topic}")
        for address in self._addresses:
            try:
                answer = self.ask((address[0], address[1]), request, 9)
            except (BarnabasError, OSError) as error:
                last = error
                continue
            brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
            return {
                p.partition_index: brokers[p.leader_id]
                for p in answer.topics[0].partitions
                if p.leader_id in brokers
            }
        raise last


def read(bootstrap: str, topic: str, partition: int, *, past_errors: bool = False) -> Found:
    """Read a partition from its first to its last offset without trusting a byte of it.

    `past_errors`: go on behind what the node refuses, offset by offset.  Raises BarnabasError, OSError.
    """
    lines = _Lines(bootstrap)
    try:
        leader = lines.leaders(topic).get(partition)
        if leader is None:
            return Found({}, [], [0])
        return _Reader(lines, leader, topic, partition).everything(_SKIPS if past_errors else 0)
    finally:
        lines.close()


class _Reader:
    def __init__(self, lines: _Lines, leader: tuple[str, int], topic: str, partition: int) -> None:
        self._lines, self._leader, self._topic, self._partition = lines, leader, topic, partition
        self._found = Found({}, [], [])

    def everything(self, skips: int) -> Found:
        offset, end = self._bound(-2), self._bound(-1)
        while offset < end:
            error, records = self._fetch(offset)
            following = self._take(offset, records) if not error else offset
            if following > offset:
                offset = following
                continue
            self._found.refused.append(offset)
            if len(self._found.refused) > skips:
                break
            offset += 1
        return self._found

    def _bound(self, when: int) -> int:
        asked = ListOffsetsPartition(partition_index=self._partition, timestamp=when)
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=self._topic, partitions=[asked])])
        row = self._lines.ask(self._leader, request, 5).topics[0].partitions[0]
        if row.error_code:
            self._found.refused.append(when)
        return int(row.offset)

    def _fetch(self, offset: int) -> tuple[int, bytes]:
        asked = FetchPartition(partition=self._partition, fetch_offset=offset, partition_max_bytes=_FETCHED)
        topic = FetchTopic(topic=self._topic, partitions=[asked])
        answer = self._lines.ask(self._leader, FetchRequest(max_bytes=_FETCHED, topics=[topic]), 11)
        row = answer.responses[0].partitions[0]
        return int(row.error_code), bytes(row.records or b"")

    def _take(self, offset: int, records: bytes) -> int:
        """Note what an answer holds; the offset after it, `offset` itself where it holds nothing."""
        first = offset
        with contextlib.suppress(CorruptRecordError):
            for at, header in batches(records):
                last = header.last_offset
                if not (
                    check_crc(records, at, header) and last >= offset and self._note(records, at, header)
                ):
                    self._found.bad.append(offset)
                    last = max(offset, last if last < offset + 1000 else offset)
                offset = last + 1
        if records and offset == first:  # bytes that do not even begin with a whole batch
            self._found.bad.append(offset)
        return offset

    def _note(self, records: bytes, at: int, header: Any) -> bool:
        if header.attributes & 0x20:  # a marker of a transaction
            return True
        rows = read_records(records, at, header)
        self._found.good.update((row.offset, row.value or b"") for row in rows)
        return all(_whole(row.value) for row in rows)


class Reading(threading.Thread):
    """A thread that reads everything again and again, in turn without checks and with those of a client."""

    def __init__(self, bootstrap: str, partitions: Iterable[TopicPartition]) -> None:
        super().__init__(name="reading", daemon=True)
        self.rounds = 0
        self.served: list[tuple[float, str, int]] = []
        """When (seconds since 1970), of which partition and at which offset a damaged batch was served."""
        self._servers, self._partitions = bootstrap, list(partitions)
        self._over = threading.Event()

    def end(self) -> None:
        self._over.set()
        self.join(60)

    def run(self) -> None:
        while not self._over.wait(_PAUSE_S):
            for place in self._partitions:
                with contextlib.suppress(BarnabasError, OSError, KeyError):
                    began = time.time()
                    found = read(self._servers, place.topic, place.partition)
                    self.served += [(began, str(place), offset) for offset in found.bad]
            with contextlib.suppress(BarnabasError, OSError):
                self._check()
            self.rounds += 1

    def _check(self) -> None:
        """Read as a client that checks CRCs: what it meets, the node hears of when it asks again."""
        topics = sorted({place.topic for place in self._partitions})
        deadline = time.monotonic() + 4.0
        with Consumer(self._servers, *topics, start="earliest", timeout=4.0, client_id="checks") as consumer:
            ends = consumer.offsets_at("latest")
            while time.monotonic() < deadline and not self._over.is_set():
                try:
                    consumer.poll(0.2, 5000)
                except CorruptRecordError:  # (most applications ask again)
                    time.sleep(0.1)
                if all(consumer.position(*place) >= end for place, end in ends.items()):
                    return
