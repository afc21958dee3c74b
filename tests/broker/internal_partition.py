"""One partition of a coordinator's topic in memory."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from barnabas.wire.records import read_batch_header


class InternalPartition:
    """What was appended; the tests say when it counts as safe."""

    topic = ""
    index, log_start_offset = 0, 0

    def __init__(self) -> None:
        self.raw = bytearray()
        self.log = SimpleNamespace(log_end_offset=0, written_end_offset=0)

    def append(self, batch: bytearray) -> None:
        header = read_batch_header(batch)
        batch[0:8] = self.log.log_end_offset.to_bytes(8, "big")
        self.raw += batch
        self.log.log_end_offset += header.last_offset_delta + 1

    def read(self, offset: int, max_bytes: int) -> Any:
        return SimpleNamespace(read=lambda: bytes(self.raw))
