"""Every message in every version: requests, answers, records, whatever bytes they are read from.

What is read is written and read again, and must be the same.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterator

from tests.fuzz.engine.target import Target
from tests.wire.samples import MESSAGES, filled, random_message, versions

from barnabas.errors import WireError
from barnabas.wire.codec.message import decode, encode
from barnabas.wire.frame import read_request_header, read_response_header
from barnabas.wire.registry import API

__all__ = ["TARGETS"]

MOST_ELEMENTS = 250_000
PAIRS = [(cls, version) for cls in MESSAGES for version in versions(cls)]
HEADER = 0xFFFF


def _make() -> object:
    def one(data: bytes) -> Hashable:
        """Two bytes say which message and version, the rest is its body."""
        number = int.from_bytes(data[:2], "big")
        body = memoryview(data)[2:]
        if number == HEADER:
            header, end = read_request_header(body)
            known = header.api_key in API and header.version >= 0  # (of its own requests a client knows both)
            answer = read_response_header(body, header.api_key, header.version)[1] if known else 0
            return "header", header.api_key, end - answer
        cls, version = PAIRS[number % len(PAIRS)]
        message, end = decode(cls, body, version, most=MOST_ELEMENTS)
        assert end <= len(body)
        written = encode(message, version)
        again, _ = decode(cls, written, version)
        assert encode(again, version) == written, f"{cls.NAME} v{version} changes when it is written again"
        return cls.NAME, version, len(written).bit_length()

    return one


def _seeds() -> Iterator[bytes]:
    rng = random.Random(1)
    for number, (cls, version) in enumerate(PAIRS):
        if version in (cls.VERSIONS[0], cls.VERSIONS[1]):
            for message in (filled(cls, version), random_message(cls, version, rng)):
                yield number.to_bytes(2, "big") + encode(message, version)
    yield b"\xff\xff\x00\x12\x00\x04\x00\x00\x00\x07\x00\x02me\x00"


_WORDS = (
    b"\x00\x00",
    b"\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\x80\x00",
    b"\x41\x00",
)

TARGETS = [
    Target("messages", "every message in every version, and headers", _make, (WireError,), _seeds, _WORDS)  # type: ignore[arg-type]
]
