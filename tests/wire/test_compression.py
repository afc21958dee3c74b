"""Codecs: round trips, limits, and the two forms of snappy."""

from __future__ import annotations

import random

import cramjam
import pytest

from barnabas.errors import CorruptRecordError
from barnabas.wire.codec.primitives import uvarint
from barnabas.wire.compression import Codec, compress, decompress

TEXT = b"".join(b'{"flight": %d, "carrier": "UA"}\n' % n for n in range(5_000))
PACKED = [codec for codec in Codec if codec]


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("data", [b"", b"x", TEXT, random.Random(1).randbytes(200_000)])
def test_what_is_packed_unpacks(codec: Codec, data: bytes) -> None:
    packed = compress(codec, memoryview(bytearray(data)))
    assert decompress(codec, memoryview(packed), len(data)) == data


@pytest.mark.parametrize("codec", Codec)
def test_nothing_unpacks_beyond_its_limit(codec: Codec) -> None:
    packed = compress(codec, bytes(10_000_000))
    with pytest.raises(CorruptRecordError, match="more than 1000 bytes"):
        decompress(codec, packed, 1_000)


@pytest.mark.parametrize("codec", PACKED)
def test_packed_bytes_that_are_cut_off_are_corrupt(codec: Codec) -> None:
    packed = compress(codec, TEXT)
    for end in (1, 3, 9, 17, 21, len(packed) // 2, len(packed) - 1):
        with pytest.raises(CorruptRecordError):
            decompress(codec, packed[:end], len(TEXT))


@pytest.mark.parametrize("codec", PACKED)
def test_random_bytes_are_corrupt(codec: Codec) -> None:
    rng = random.Random(codec)
    for _ in range(300):
        try:
            decompress(codec, rng.randbytes(rng.randrange(1, 60)), 1_000)
        except CorruptRecordError:
            continue
        assert codec is Codec.SNAPPY, "a few random bytes are raw snappy"


def test_snappy_is_read_raw_and_framed_and_written_framed() -> None:
    raw = bytes(cramjam.snappy.compress_raw(TEXT))
    assert decompress(Codec.SNAPPY, raw, len(TEXT)) == TEXT
    framed = compress(Codec.SNAPPY, TEXT)
    assert framed.startswith(b"\x82SNAPPY\0\0\0\0\1\0\0\0\1")
    blocks = framed[:16] + len(raw).to_bytes(4, "big") + raw
    assert decompress(Codec.SNAPPY, blocks, len(TEXT)) == TEXT


def test_snappy_that_claims_gigabytes_is_refused_before_it_is_unpacked() -> None:
    for packed in (
        uvarint(0xFFFFFFFF) + b"abc",
        compress(Codec.SNAPPY, b"")[:16] + b"\0\0\0\5\xff\xff\xff\xff\x0f",
    ):
        with pytest.raises(CorruptRecordError, match="more than 1000 bytes"):
            decompress(Codec.SNAPPY, packed, 1_000)


@pytest.mark.parametrize("size", [-1, 0, 5, 0x7FFFFFFF])
def test_a_snappy_block_that_lies_is_corrupt(size: int) -> None:
    framed = compress(Codec.SNAPPY, b"abc")[:16] + size.to_bytes(4, "big", signed=True) + b"abc"
    with pytest.raises(CorruptRecordError):
        decompress(Codec.SNAPPY, framed, 1_000)


def test_gzip_members_may_follow_each_other() -> None:
    assert decompress(Codec.GZIP, compress(Codec.GZIP, b"one") + compress(Codec.GZIP, b"two"), 6) == b"onetwo"


def test_zstd_is_read_whether_or_not_it_says_its_size() -> None:
    import zstandard

    silent = zstandard.ZstdCompressor(write_content_size=False).compress(TEXT)
    assert zstandard.get_frame_parameters(silent).content_size == 0xFFFFFFFFFFFFFFFF
    assert decompress(Codec.ZSTD, silent, len(TEXT)) == TEXT
    for packed in (silent, compress(Codec.ZSTD, TEXT)):
        with pytest.raises(CorruptRecordError, match="more than"):
            decompress(Codec.ZSTD, packed, len(TEXT) - 1)
        with pytest.raises(CorruptRecordError):
            decompress(Codec.ZSTD, packed + b"more", len(TEXT))


def test_an_unknown_codec_is_corrupt() -> None:
    for codec in (5, 7, -1):
        with pytest.raises(CorruptRecordError, match="unknown compression codec"):
            compress(codec, b"")
        with pytest.raises(CorruptRecordError, match="unknown compression codec"):
            decompress(codec, b"", 1)
