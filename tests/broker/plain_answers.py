"""Answers that were left as plain rows, read back from the frames that are made of them."""

from __future__ import annotations

from typing import Any

from tests.broker.harness import Answer

from barnabas.broker.purgatory import Waiting
from barnabas.wire.codec.message import decode
from barnabas.wire.consumer_fetch import ConsumerAnswer, write_consumer_answer
from barnabas.wire.frame import read_response_header
from barnabas.wire.replica_fetch import PlainAnswer, write_plain_answer
from barnabas.wire.schemas.fetch import FetchResponse

__all__ = ["plainly_answered"]

_CORRELATION = 77


class _PlainlyAnswered(Answer):
    def take(self, message: Any) -> None:
        parts: list[Any] = []
        if isinstance(message, ConsumerAnswer):
            size = write_consumer_answer(parts, _CORRELATION, self.version, message)
        elif isinstance(message, PlainAnswer):
            size = write_plain_answer(parts, _CORRELATION, message)
        else:
            super().take(message)
            return
        whole = b"".join(part.read() if hasattr(part, "read") else bytes(part) for part in parts)
        assert size == len(whole) == 4 + int.from_bytes(whole[:4], "big")
        correlation, body = read_response_header(whole, 1, self.version, 4)
        assert correlation == _CORRELATION
        message, end = decode(FetchResponse, memoryview(whole), self.version, body)
        assert end == len(whole)
        super().take(message)


def plainly_answered(found: Any, version: int) -> Answer:
    """What came of a fetch, now or later: an answer, plain or made of objects, or one that waits for it."""
    answer = _PlainlyAnswered(version)
    if isinstance(found, Waiting):
        answer.waiting = found
        found.on_done = answer.take
    else:
        answer.take(found)
    return answer
