"""Produce requests as rows, straight from bytes (Produce 3 to 13; KIP-98, KIP-516).

A row is a batch for one partition: where its bytes are, and what is known of them (`wire/walk`, compiled where
that is possible, finds both for all requests of a read in one call).  Everything else that a request says
(`Terms`) is mostly the same for all requests of a connection, so `terms_of` is asked once for the bytes that say
it.  A request that is not plain to read (tagged fields that nobody sends, a null batch) is none here, and
`objects` makes the same rows of what the decoder reads.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from barnabas.errors import CorruptRecordError, UnreadableError
from barnabas.wire.codec.message import decode_whole
from barnabas.wire.compression import decompress, is_linked
from barnabas.wire.frame import RequestHeader, read_request_header
from barnabas.wire.records import HEADER_SIZE
from barnabas.wire.schemas.produce import ProduceRequest
from barnabas.wire.walk import CLOSER, EMPTY, NUMBERED, PACKED, PART, TOPIC, TRANSACTION, ProduceRows

__all__ = [
    "CLOSER",
    "EMPTY",
    "FLEXIBLE_SINCE",
    "NO_TOPIC",
    "NUMBERED",
    "PACKED",
    "PART",
    "TOPIC",
    "TOPIC_IDS_SINCE",
    "TRANSACTION",
    "ProduceRows",
    "Terms",
    "terms_of",
    "unpack",
]

FLEXIBLE_SINCE, TOPIC_IDS_SINCE = 9, 13
NO_TOPIC = -2
"""The partition of the row of a request that names no topic."""
_IN_FRONT = 4
"""Bytes of a request in front of its correlation id."""
_ATTRIBUTES_AT = 22
"""The low byte of a batch's attributes; nothing but its codec, where it is to be unpacked."""


class Terms(NamedTuple):
    """Everything that a Produce request says besides its batches."""

    version: int
    transactional_id: str | None
    acks: int
    timeout_ms: int

    @property
    def by_id(self) -> bool:
        """Return whether it names topics by their ids."""
        return self.version >= TOPIC_IDS_SINCE


def unpack(found: ProduceRows, most: int) -> None:
    """Look into the packed batches, those that unpack to at most so many bytes: if their records are good, they
    are plain from now on."""
    for at, (_, how, _, records, _, _, _) in enumerate(found.rows):
        if how & PACKED:
            codec, body = records[_ATTRIBUTES_AT], records[HEADER_SIZE:]
            if not is_linked(codec, body):
                with suppress(CorruptRecordError, UnreadableError):  # (others say what is wrong)
                    found.unpacked(at, decompress(codec, body, most))


def terms_of(head: bytes) -> tuple[RequestHeader, Terms]:
    """Return what the `head` of rows says; the correlation id is 0.  Raises WireError."""
    no_topics = b"\1\0" if head[3] >= FLEXIBLE_SINCE else bytes(4)
    frame = memoryview(head[:_IN_FRONT] + bytes(4) + head[_IN_FRONT:] + no_topics)
    header, body = read_request_header(frame)
    request = decode_whole(ProduceRequest, frame, header.version, body)
    return header, Terms(header.version, request.transactional_id, request.acks, request.timeout_ms)
