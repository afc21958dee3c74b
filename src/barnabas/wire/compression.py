"""The codecs of record batches, each loaded at its first use.

Nothing is unpacked beyond `max_size`: a few bytes may claim to be gigabytes.  Everything wrong with
compressed bytes is a CorruptRecordError.  Snappy comes framed as Java's library does it ("xerial") or
raw, as other clients send it; we write the framed form, which every client reads.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING, TypeVar

from barnabas.doors import Buffer
from barnabas.errors import CorruptRecordError, WireError
from barnabas.wire.primitives import read_uvarint

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")

__all__ = ["MAX_DECOMPRESSED", "Codec", "compress", "decompress"]

MAX_DECOMPRESSED = 128 << 20
"""How much one batch may unpack to where the caller knows no better (bytes)."""

_XERIAL = b"\x82SNAPPY\0"
_XERIAL_VERSIONS = struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 << 10
_ZSTD_UNSAID = (1 << 64) - 1


class Codec(IntEnum):
    """How the records of a batch are packed (low three bits of its attributes)."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: int, data: Buffer) -> bytes:
    """Pack `data`.  Raises CorruptRecordError for an unknown codec."""
    return _known(_PACK, codec)(data)


def decompress(codec: int, data: Buffer, max_size: int = MAX_DECOMPRESSED) -> bytes:
    """Unpack `data` to at most `max_size` bytes.

    Raises CorruptRecordError when the codec is unknown, the bytes are broken or there would be more.
    """
    found = _known(_UNPACK, codec)(data, max_size)
    if len(found) > max_size:
        raise _too_large(max_size)
    return found


def _too_large(max_size: int) -> CorruptRecordError:
    return CorruptRecordError(f"compressed records unpack to more than {max_size} bytes")


def _known(table: dict[int, _T], codec: int) -> _T:
    try:
        return table[codec]
    except KeyError:
        raise CorruptRecordError(f"unknown compression codec {codec}") from None


def _gzip(data: Buffer) -> bytes:
    import zlib

    packer = zlib.compressobj(wbits=31)
    return packer.compress(data) + packer.flush()


def _gunzip(data: Buffer, max_size: int) -> bytes:
    import zlib

    out = bytearray()
    rest: Buffer = data
    try:
        while rest:
            unpacker = zlib.decompressobj(wbits=31)
            out += unpacker.decompress(rest, max_size + 1 - len(out))
            if len(out) > max_size:
                raise _too_large(max_size)
            if not unpacker.eof:
                raise CorruptRecordError("gzip data is cut off")
            rest = unpacker.unused_data
    except zlib.error as error:
        raise CorruptRecordError(f"broken gzip data: {error}") from error
    return bytes(out)


def _snap(data: Buffer) -> bytes:
    import cramjam

    view = memoryview(data)
    parts = [_XERIAL, _XERIAL_VERSIONS]
    for start in range(0, len(view), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK]))
        parts += [struct.pack(">i", len(block)), block]
    return b"".join(parts)


def _unsnap(data: Buffer, max_size: int) -> bytes:
    view = memoryview(data)
    if bytes(view[:8]) != _XERIAL:
        return _unsnap_block(view, max_size)
    if len(view) < 16:
        raise CorruptRecordError("snappy data is cut off")
    out = bytearray()
    position = 16
    while position < len(view):
        if position + 4 > len(view):
            raise CorruptRecordError("snappy data is cut off")
        size = int.from_bytes(view[position : position + 4], "big", signed=True)
        position += 4
        if size <= 0 or position + size > len(view):
            raise CorruptRecordError(f"a snappy block claims {size} bytes")
        out += _unsnap_block(view[position : position + size], max_size - len(out))
        position += size
    return bytes(out)


def _unsnap_block(block: memoryview, max_size: int) -> bytes:
    """One raw block; its length stands in front, so it is checked before anything is unpacked."""
    import cramjam

    try:
        size, _ = read_uvarint(block, 0)
    except WireError as error:
        raise CorruptRecordError(f"broken snappy data: {error}") from error
    if size > max_size:
        raise _too_large(max_size)
    try:
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CorruptRecordError(f"broken snappy data: {error}") from error


def _lz4(data: Buffer) -> bytes:
    import lz4.frame

    # Independent blocks of 64 KiB and no content size: what Kafka's own reader accepts.
    packed: bytes = lz4.frame.compress(
        data, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False
    )
    return packed


def _unlz4(data: Buffer, max_size: int) -> bytes:
    import lz4.frame

    unpacker = lz4.frame.LZ4FrameDecompressor()
    try:
        # A block of lz4 grows 255-fold at most; a larger buffer would only be made and thrown away.
        most = min(max_size + 1, 255 * len(data) + 64)
        out: bytes = unpacker.decompress(bytes(data), max_length=most)
    except (RuntimeError, EOFError) as error:
        raise CorruptRecordError(f"broken lz4 data: {error}") from error
    if not unpacker.eof:
        if len(out) > max_size:
            raise _too_large(max_size)
        raise CorruptRecordError("lz4 data is cut off")
    return out


def _zstd(data: Buffer) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=3).compress(data)


def _unzstd(data: Buffer, max_size: int) -> bytes:
    import zstandard

    try:
        claimed = zstandard.get_frame_parameters(data).content_size
        if claimed != _ZSTD_UNSAID and claimed > max_size:
            raise _too_large(max_size)
        # The room for the whole limit is asked for, but only what is used is ever touched.
        room = max(max_size, 1)
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=room, allow_extra_data=False)
    except zstandard.ZstdError as error:
        # A frame that does not say its size fails alike when it is broken and when it is too large.
        raise CorruptRecordError(f"zstd data is broken or more than {max_size} bytes: {error}") from error


_PACK: dict[int, Callable[[Buffer], bytes]] = {0: bytes, 1: _gzip, 2: _snap, 3: _lz4, 4: _zstd}
_UNPACK: dict[int, Callable[[Buffer, int], bytes]] = {
    0: lambda data, max_size: bytes(data),
    1: _gunzip,
    2: _unsnap,
    3: _unlz4,
    4: _unzstd,
}
