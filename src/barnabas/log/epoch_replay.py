"""The leader epochs of a log that is opened: what the checkpoint says, and after a crash the batches read again.

No CRC covers the epoch of a batch, and the checkpoint has no checksum.  Epochs never fall, so a batch that says
less than both the checkpoint and the batch before is wrong, and changes nothing here: a follower refuses it, and a
leader that is asked for it again finds that it is not what its log says (`reading.check`).
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from typing import Final

from barnabas.errors import CorruptRecordError, StorageError
from barnabas.log.epochs import EpochCache
from barnabas.log.files.checkpoint import read_epochs
from barnabas.log.reading import readable_headers
from barnabas.log.sealed import last_headers
from barnabas.log.state import LogState
from barnabas.model import NO_EPOCH, Epoch
from barnabas.wire.records import HEADER_SIZE

__all__ = ["EPOCHS", "replay_epochs"]

EPOCHS: Final = "leader-epoch-checkpoint"
_STEP_BYTES = 1 << 20


def replay_epochs(log: LogState, clean: bool) -> Generator[None, None, None]:
    """Have a log know its leader epochs: without a checkpoint that can be read, from all batches."""
    path = f"{log.path}/{EPOCHS}"
    try:
        cache = EpochCache(read_epochs(log.disk, path))
        known = log.disk.exists(path)
    except StorageError:
        cache, known = EpochCache(), False
    first = 0 if not known else len(log.segments) if clean else len(log.segments) - log.recovery.segments
    least = _epoch_before(log, first, cache)
    seen = 0
    if not known:
        cache.dirty = True
    for segment in log.segments[first:]:
        for _, header in readable_headers(log, segment):
            new = header.leader_epoch != cache.latest or cache.starts[-1] > header.base_offset
            if new and header.leader_epoch >= least:
                cache.assign(header.leader_epoch, header.base_offset)
            seen += HEADER_SIZE
            if seen >= _STEP_BYTES:
                seen = 0
                yield
    cache.truncate_from_start(log.log_start_offset)
    cache.truncate_from_end(log.log_end_offset)
    log.know_epochs(cache)


def _epoch_before(log: LogState, place: int, cache: EpochCache) -> Epoch:
    """Return the epoch of the batch before a segment that is read again, if it and the checkpoint agree; else the
    lower of both."""
    if not 0 < place < len(log.segments):
        return NO_EPOCH
    before, epoch = log.segments[place - 1], NO_EPOCH
    with suppress(CorruptRecordError):
        for header in last_headers(before):
            if header.last_offset < before.limit:
                epoch = header.leader_epoch
    return min(epoch, cache.epoch_at(before.limit - 1))
