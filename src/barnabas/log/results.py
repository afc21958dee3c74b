"""What a log answers."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.model import Offset

__all__ = ["Appended", "LogStatistics"]


class Appended(NamedTuple):
    """The offsets that an append was given."""

    first_offset: Offset
    last_offset: Offset


class LogStatistics(NamedTuple):
    """A reading of one log."""

    log_start_offset: Offset
    durable_end_offset: Offset
    written_end_offset: Offset
    log_end_offset: Offset
    high_watermark: Offset
    last_stable_offset: Offset
    segments: int
    size: int
    producers: int
