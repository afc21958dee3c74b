"""How much clients wrote to and read from one partition, counted as it happens."""

from __future__ import annotations

__all__ = ["PartitionTraffic"]


class PartitionTraffic:
    """Plain ints since this node has the partition; bytes are those of record batches."""

    __slots__ = ("bytes_in", "bytes_out", "records_in")

    def __init__(self) -> None:
        self.bytes_in = self.bytes_out = self.records_in = 0

    def wrote(self, size: int, records: int) -> None:
        """A client's batch was appended."""
        self.bytes_in += size
        self.records_in += records

    def __repr__(self) -> str:
        return f"<PartitionTraffic {self.records_in} records, {self.bytes_in} bytes in, {self.bytes_out} out>"
