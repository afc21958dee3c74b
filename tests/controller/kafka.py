"""Metadata logs and snapshots that Apache Kafka wrote, read for tests."""

from __future__ import annotations

from pathlib import Path

from barnabas.controller.image import MetadataImage
from barnabas.controller.replay import Replay
from barnabas.raft.entries import Batch
from barnabas.server.kraft.records import decode_batch, metadata_of
from barnabas.wire.records import batches, check_crc

FILES = Path(__file__).parents[1] / "fixtures" / "kafka-4.3.1" / "metadata"
CLUSTER = "5L6g3nShT-eMCtK--X86sw"


def read(name: str) -> bytes:
    return (FILES / name).read_bytes()


def log_batches(name: str) -> list[tuple[Batch, int]]:
    """The batches of a log, each with its largest timestamp."""
    data = read(name)
    found = []
    for position, header in batches(data):
        assert check_crc(data, position, header)
        found.append((decode_batch(data, position, header), header.max_timestamp))
    return found


def replayed(name: str, below: int | None = None) -> MetadataImage:
    """The image that a log (its records below an offset) makes."""
    replay = Replay(MetadataImage(CLUSTER))
    for batch, timestamp in log_batches(name):
        if below is not None and batch.base_offset >= below:
            break
        records = metadata_of(batch)
        if records:
            replay.apply(records, offset=batch.base_offset, epoch=batch.epoch, timestamp_ms=timestamp)
        else:
            replay.skip_to(batch.last_offset, batch.epoch, timestamp)
    return replay.image
