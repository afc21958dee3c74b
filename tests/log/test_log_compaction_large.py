"""Compaction of batches that unpack to more than one likes to hold: the same outcome, little memory."""

from __future__ import annotations

import random
import tracemalloc
from unittest import mock

import pytest
from tests.log.log_building import NOW, later, new_disk, open_log
from tests.log.test_log_compaction import all_records, clean, compacted, put, records_of

from barnabas.log.cleaning import compaction
from barnabas.wire.compression import Codec

DAY = 86_400_000


def written(rounds: int, codec: int, whole: int) -> list[object]:
    """What is left of random records with few keys, after rounds in which deletions come and go."""
    rng = random.Random(7)
    keys = [b"k%d" % n for n in range(6)] + [b"a much longer key %d" % n for n in range(6)]
    log = open_log(new_disk(), compacted(segment_bytes=3000))
    with mock.patch.object(compaction, "_WHOLE_BATCH_BYTES", whole):
        for number in range(rounds):
            for _ in range(8):
                rows = [
                    (rng.choice(keys), rng.choice((None, b"v" * rng.randrange(90))))
                    for _ in range(rng.randrange(1, 12))
                ]
                put(log, *rows, codec=codec, timestamp=NOW.wall_ms + number)
            clean(log, later((number + 1) * 2 * DAY), 1 << 24)
    return [(header._replace(batch_length=0, crc=0), record) for header, record in all_records(log)]


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_read_piece_by_piece_is_compacted_as_one_read_whole(codec: Codec) -> None:
    assert written(4, codec, whole=0) == written(4, codec, whole=1 << 21)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_a_batch_that_unpacks_to_very_much_is_compacted_in_little_memory(codec: Codec) -> None:
    log = open_log(new_disk(), compacted(segment_bytes=1 << 20))
    size = 12 << 20
    put(log, (b"a", bytes(size)), (b"b", bytes(size)), (b"c", None), (b"a", b"new"), codec=codec)
    put(log, (b"b", b"newest"), codec=codec)
    tracemalloc.start()
    clean(log, NOW, 1 << 24)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert records_of(log) == [(2, b"c", None), (3, b"a", b"new"), (4, b"b", b"newest")]
    assert peak < 6 << 20
