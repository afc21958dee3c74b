"""One partition of a coordinator's topic in memory."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from barnabas.wire.records import read_batch_header


class InternalPartition:
    """What was appended; the tests say when it counts as safe."""

    topic = ""
    index, log_start_offset, leader_epoch = 0, 0, 0
    offline = False
    uncommitted = 0
    """How many records at its end are not committed."""
    acknowledgements = SimpleNamespace(forget=lambda one: None)

    def __init__(self) -> None:
        self.raw = bytearray()
        self.log = SimpleNamespace(log_end_offset=0, written_end_offset=0)

    @property
    def high_watermark(self) -> int:
        return int(self.log.log_end_offset) - self.uncommitted

    def append(self, batch: bytearray) -> None:
        header = read_batch_header(batch)
        batch[0:8] = self.log.log_end_offset.to_bytes(8, "big")
        self.raw += batch
        self.log.log_end_offset += header.last_offset_delta + 1

    def read(self, offset: int, max_bytes: int) -> Any:
        return SimpleNamespace(read=lambda: bytes(self.raw))
