"""The results of a log's operations."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple, TypedDict, TypeVar

from barnabas.model import NO_OFFSET, Offset

__all__ = ["Appended", "Known", "Recovery", "finished"]

_Result = TypeVar("_Result")


class Appended(NamedTuple):
    """The offsets that an append was given."""

    first_offset: Offset
    last_offset: Offset


class Recovery(NamedTuple):
    """What opening a log found."""

    remade: list[str]
    """Index files that were gone, or were not what they must be, and are made again, then or later."""
    clean: bool = True
    segments: int = 0
    """Segments that were read again."""
    batches: int = 0
    cut_at: Offset = NO_OFFSET
    """The offset of the cut, NO_OFFSET if all was good.  A torn end and a damaged one can look the same."""
    bytes_cut: int = 0
    reason: str = ""
    lost: bool = False
    """Records that had been synced are gone: the disk did not keep them."""
    gaps_below: Offset = 0
    """Segments that begin below may end before the next one begins: Apache Kafka may have compacted them."""
    damaged: bool = False
    """Whether some of what cannot be read was known then."""


class Known(TypedDict, total=False):
    """What a directory's checkpoints say of a log that is opened."""

    recovery_point: Offset
    log_start: Offset
    first: Offset
    """Where the log started when that was written down last, NO_OFFSET where nobody did: it has segments from
    there on."""
    high_watermark: Offset | None
    cleaned: Offset
    """Up to where it was compacted."""
    required: Offset
    """The log refuses to open if it would lose a record below this offset."""
    expiration_ms: int
    """How long silent producers are remembered (a setting, not a checkpoint)."""


def finished(steps: Generator[Any, None, _Result]) -> _Result:
    """Run all steps of a generator; returns its result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: _Result = end.value
            return result
