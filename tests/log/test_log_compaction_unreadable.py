"""Compaction of a log in which a producer's packed records lie about their lengths, and nobody can read them."""

from __future__ import annotations

from unittest import mock

import pytest
from tests.broker.hostile_batches import lying, packed_records
from tests.log.log_building import NOW, append, later, new_disk, open_log
from tests.log.test_log_compaction import DAY, begin, clean, commit, compacted, drive, put

from barnabas.errors import CorruptRecordError
from barnabas.log.cleaning import compaction
from barnabas.log.log import Log
from barnabas.wire.compression import Codec
from barnabas.wire.records import batches, check_crc, read_records

SIZES = {"whole": 2 << 20, "piece by piece": 0}


def held(log: Log) -> list[object]:
    """What is in a log: (offset, key, value), and of a batch that cannot be read its first offset alone."""
    found: list[object] = []
    for segment in log.segments:
        raw = segment.file.read_at(0, segment.end_position)
        for position, header in batches(raw):
            assert check_crc(raw, position, header)
            try:
                found += [(r.offset, r.key, r.value) for r in read_records(raw, position, header)]
            except CorruptRecordError:
                found.append(header.base_offset)
    return found


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("looked_at", SIZES)
def test_a_batch_that_lies_stays_as_it_is_and_all_else_is_compacted(codec: Codec, looked_at: str) -> None:
    log = open_log(new_disk(), compacted(segment_bytes=1000))
    put(log, (b"a", b"old"), (b"b", b"old"))
    put(log, (b"key", b"cannot be superseded by what nobody can read"))
    append(log, bytearray(lying(b"1", None, b"3", at=NOW.wall_ms, codec=codec)))
    put(log, (b"a", b"new"), (b"b", None))
    log.roll(NOW)
    put(log, (b"end", b""))
    kept = (2, b"key", b"cannot be superseded by what nobody can read")
    with mock.patch.object(compaction, "_WHOLE_BATCH_BYTES", SIZES[looked_at]):
        cleaning = begin(log)
        assert drive(cleaning)
        left = held(log)
        assert left == [kept, 3, (6, b"a", b"new"), (7, b"b", None), (8, b"end", b"")]
        done = cleaning.statistics()
        assert (done.unreadable, done.first_unreadable) == (1, 3)
        put(log, (b"a", b"newest"))
        log.roll(NOW)
        commit(log)
        clean(log, later(3 * DAY))
    assert held(log) == [kept, 3, (8, b"end", b""), (9, b"a", b"newest")]


def test_keys_that_a_lying_batch_only_seems_to_have_supersede_nothing() -> None:
    """Its lengths lead from one record to the next and end well; what stands in the records does not."""
    log = open_log(new_disk(), compacted(segment_bytes=1000))
    put(log, (b"key", b"kept"))
    size = len(b"\0\0\0\x06key\x0avalue\0")
    append(log, bytearray(packed_records(NOW.wall_ms, size + 1, size - 1)))
    log.roll(NOW)
    put(log, (b"end", b""))
    clean(log)
    assert held(log) == [(0, b"key", b"kept"), 1, (3, b"end", b"")]
