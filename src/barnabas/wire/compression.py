"""The codecs of record batches, each loaded at its first use.

Nothing is decompressed beyond `max_size`: a few bytes may claim to be gigabytes.  `decompress` returns all at
once; `pieces` returns a little at a time, and holds no more than that.  Bytes that a codec cannot decompress
are an UnreadableError, too many of them a CorruptRecordError.  Bytes after the end of a gzip or lz4 stream do
not count, as in Apache Kafka.  Snappy comes framed as by Java's library ("xerial") or raw, as other clients
send it; we write the framed form, which every client reads.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol, TypeVar

from barnabas.errors import CorruptRecordError, UnreadableError, WireError
from barnabas.ports import Buffer
from barnabas.wire.codec.primitives import read_uvarint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_T = TypeVar("_T")

__all__ = [
    "MAX_DECOMPRESSED",
    "PIECE",
    "Codec",
    "Packer",
    "compress",
    "decompress",
    "is_linked",
    "packer",
    "pieces",
]

MAX_DECOMPRESSED = 128 << 20
"""How much one batch may unpack to where the caller knows no better (bytes)."""

PIECE = 256 * 1024
"""About how many bytes `pieces` gives at a time."""
_LZ4_ROOM = 64 * 1024
"""Least bytes that lz4 is given to unpack to: a block of Kafka's clients."""
_FED = 64 * 1024
"""Packed bytes that gzip is given at a time: it copies what it has no use for yet."""
_XERIAL = b"\x82SNAPPY\0"
_XERIAL_VERSIONS = struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 << 10
_ZSTD_UNSAID = (1 << 64) - 1
_ZSTD_ABSURD = 1 << 40
_ZSTD_WINDOW = 16 << 20
"""Memory for what a frame looks back on; a larger window is only claimed by who has less than that to unpack."""


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


def pieces(codec: int, data: Buffer, max_size: int = MAX_DECOMPRESSED) -> Iterator[bytes]:
    """Yield the same as `decompress`, a piece at a time: memory is bounded by PIECE and the codec's own window.

    What is not compressed has no limit here: it is no larger than the data.
    """
    found = _known(_PIECES, codec)(data)
    yield from _bounded(found, max_size) if codec else found


def _bounded(found: Iterator[bytes], max_size: int) -> Iterator[bytes]:
    size = 0
    for piece in found:
        size += len(piece)
        if size > max_size:
            raise _too_large(max_size)
        yield piece


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

    unpacker = zlib.decompressobj(wbits=31)
    try:
        out = unpacker.decompress(data, max_size + 1)
    except zlib.error as error:
        raise UnreadableError(f"broken gzip data: {error}") from error
    if len(out) <= max_size and unpacker.eof and not _more_members(unpacker.unused_data):
        return out
    return b"".join(_bounded(_gzip_pieces(data), max_size))


def _more_members(rest: bytes) -> bool:
    """Whether another gzip member follows; anything else after the first does not count."""
    return rest[:3] == b"\x1f\x8b\x08"


def _gzip_pieces(data: Buffer) -> Iterator[bytes]:
    import zlib

    view = memoryview(data)
    unpacker, at, fed = zlib.decompressobj(wbits=31), 0, b""
    try:
        while True:
            if not fed and not unpacker.eof:
                fed = bytes(view[at : at + _FED])
                at += len(fed)
                if not fed:
                    raise UnreadableError("gzip data is cut off")
            piece = unpacker.decompress(fed, PIECE)
            fed = unpacker.unconsumed_tail
            if piece:
                yield piece
            if unpacker.eof:
                rest = unpacker.unused_data
                if not _more_members(rest + bytes(view[at : at + 3])):
                    return
                unpacker, fed = zlib.decompressobj(wbits=31), rest or bytes(view[at : at + _FED])
                at += 0 if rest else len(fed)
    except zlib.error as error:
        raise UnreadableError(f"broken gzip data: {error}") from error


def _snap(data: Buffer) -> bytes:
    import cramjam

    view = memoryview(data)
    parts = [_XERIAL, _XERIAL_VERSIONS]
    for start in range(0, len(view), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK]))
        parts += [struct.pack(">i", len(block)), block]
    return b"".join(parts)


def _unsnap(data: Buffer, max_size: int) -> bytes:
    found, parts = 0, []
    for block in _snappy_blocks(data):
        found += _unsnapped_size(block)
        if found > max_size:
            raise _too_large(max_size)
        parts.append(_unsnap_block(block))
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _snappy_pieces(data: Buffer) -> Iterator[bytes]:
    """Yield a block at a time: one grows about 21-fold at most, so a false claim shows soon."""
    for block in _snappy_blocks(data):
        if _unsnapped_size(block) > 64 * len(block):
            raise UnreadableError(f"a snappy block of {len(block)} bytes claims {_unsnapped_size(block)}")
        yield _unsnap_block(block)


def _snappy_blocks(data: Buffer) -> Iterator[memoryview]:
    """The raw blocks of framed bytes, or raw bytes as they are."""
    view = memoryview(data)
    if bytes(view[:8]) != _XERIAL:
        yield view
        return
    if len(view) < 16:
        raise UnreadableError("snappy data is cut off")
    position = 16
    while position < len(view):
        if bytes(view[position : position + 8]) == _XERIAL:  # one stream after the other
            position += 16
            continue
        if position + 4 > len(view):
            raise UnreadableError("snappy data is cut off")
        size = int.from_bytes(view[position : position + 4], "big", signed=True)
        position += 4
        if size <= 0 or position + size > len(view):
            raise UnreadableError(f"a snappy block claims {size} bytes")
        yield view[position : position + size]
        position += size


def _unsnapped_size(block: memoryview) -> int:
    """The unpacked length; it stands in front, so it is known before anything is unpacked."""
    try:
        return read_uvarint(block, 0)[0]
    except WireError as error:
        raise UnreadableError(f"broken snappy data: {error}") from error


def _unsnap_block(block: memoryview) -> bytes:
    import cramjam

    try:
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise UnreadableError(f"broken snappy data: {error}") from error


def _lz4(data: Buffer) -> bytes:
    import lz4.frame

    # Independent blocks of 64 KiB and no content size: what Kafka's own reader accepts.
    packed: bytes = lz4.frame.compress(
        data, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False
    )
    return packed


def is_linked(codec: int, data: Buffer) -> bool:
    """Whether these are lz4 blocks that look back on those before them: Kafka and its clients read none."""
    return codec == Codec.LZ4 and len(data) > 4 and not data[4] & 0x20


def _unlz4(data: Buffer, max_size: int) -> bytes:
    # Room for what a block of lz4 can grow to (255-fold) is more than most need, and a buffer that large is the
    # system's: it clears it, page by page, each time.  With this one most come in one piece.
    room = min(max_size + 1, max(_LZ4_ROOM, 4 * len(data)))
    return b"".join(_bounded(_lz4_pieces(data, room), max_size))


def _lz4_pieces(data: Buffer, most: int = PIECE) -> Iterator[bytes]:
    import lz4.frame

    unpacker = lz4.frame.LZ4FrameDecompressor()
    fed = bytes(data)
    try:
        while not unpacker.eof:
            piece: bytes = unpacker.decompress(fed, max_length=most)
            if not piece and unpacker.needs_input and not unpacker.eof:
                raise UnreadableError("lz4 data is cut off")
            fed = b""
            if piece:
                yield piece
    except (RuntimeError, EOFError) as error:
        raise UnreadableError(f"broken lz4 data: {error}") from error


def _zstd(data: Buffer) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=3).compress(data)


def _unzstd(data: Buffer, max_size: int) -> bytes:
    import zstandard

    if not len(data):
        return b""
    try:
        claimed = zstandard.get_frame_parameters(data).content_size
        if claimed != _ZSTD_UNSAID and max_size < claimed < _ZSTD_ABSURD:
            raise _too_large(max_size)
        if claimed == _ZSTD_UNSAID or claimed >= _ZSTD_ABSURD or _zstd_end(memoryview(data), 0) != len(data):
            raise zstandard.ZstdError("several frames, or one that does not say its size")
        # The room for the whole limit is asked for, but only what is used is ever touched.
        room = max(max_size, 1)
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=room, allow_extra_data=False)
    except zstandard.ZstdError:
        pass  # piece by piece, then
    return b"".join(_bounded(_zstd_pieces(data), max_size))


def _zstd_pieces(data: Buffer) -> Iterator[bytes]:
    import zstandard

    view = memoryview(data)
    at = 0
    try:
        while at < len(view):
            end = _zstd_end(view, at)
            if _is_skipped(view, at):
                at = end
                continue
            window = zstandard.get_frame_parameters(view[at:end]).window_size
            found = 0
            with zstandard.ZstdDecompressor().stream_reader(view[at:end]) as reader:
                while piece := reader.read(PIECE):
                    found += len(piece)
                    if found > _ZSTD_WINDOW < window:
                        raise UnreadableError(f"a zstd window of {window} bytes; {_ZSTD_WINDOW} are the most")
                    yield piece
            at = end
    except zstandard.ZstdError as error:
        raise UnreadableError(f"broken zstd data: {error}") from error


def _zstd_end(view: memoryview, at: int) -> int:
    """Where the frame at `at` ends.  Raises UnreadableError when it is cut off.

    Found by walking from block to block: a reader that gives a piece at a time does not say whether the
    bytes ended too soon.
    """
    import zstandard

    if _is_skipped(view, at):
        end = at + 8 + int.from_bytes(view[at + 4 : at + 8], "little")
        if end > len(view):
            raise UnreadableError("zstd data is cut off")
        return end
    try:
        position = at + zstandard.frame_header_size(view[at:])
        checked = zstandard.get_frame_parameters(view[at:]).has_checksum
    except zstandard.ZstdError as error:
        raise UnreadableError(f"broken zstd data: {error}") from error
    last = 0
    while not last:
        if position + 3 > len(view):
            raise UnreadableError("zstd data is cut off")
        block = view[position] | view[position + 1] << 8 | view[position + 2] << 16
        last = block & 1
        position += 3 + (1 if block >> 1 & 3 == 1 else block >> 3)
    position += 4 if checked else 0
    if position > len(view):
        raise UnreadableError("zstd data is cut off")
    return position


def _is_skipped(view: memoryview, at: int) -> bool:
    """Whether a frame is of those that carry something else."""
    return view[at] >> 4 == 5 and bytes(view[at + 1 : at + 4]) == b"\x2a\x4d\x18" and at + 8 <= len(view)


class Packer(Protocol):
    """Packs bytes a piece at a time."""

    def add(self, data: Buffer) -> bytes:
        """What is packed by now of this and earlier pieces."""
        ...

    def end(self) -> bytes:
        """The rest."""
        ...


class _Streaming:
    """zlib's and zstandard's objects are alike; lz4's says `begin`, and `compress` of nothing is as good."""

    __slots__ = ("_add", "_begun", "_end")

    def __init__(self, add: Callable[[Buffer], bytes], end: Callable[[], bytes], begun: bytes = b"") -> None:
        self._add, self._end, self._begun = add, end, begun

    def add(self, data: Buffer) -> bytes:
        begun, self._begun = self._begun, b""
        return begun + self._add(data)

    def end(self) -> bytes:
        begun, self._begun = self._begun, b""
        return begun + self._end()


def packer(codec: int) -> Packer:
    """What packs bytes as `compress` does, a piece at a time."""
    return _known(_PACKERS, codec)()


def _gzip_packer() -> Packer:
    import zlib

    stream = zlib.compressobj(wbits=31)
    return _Streaming(stream.compress, stream.flush)


def _snappy_packer() -> Packer:
    def blocks(data: Buffer) -> bytes:
        return _snap(data)[16:]

    return _Streaming(blocks, bytes, _XERIAL + _XERIAL_VERSIONS)


def _lz4_packer() -> Packer:
    import lz4.frame

    stream = lz4.frame.LZ4FrameCompressor(block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False)
    begun: bytes = stream.begin()
    return _Streaming(stream.compress, stream.flush, begun)


def _zstd_packer() -> Packer:
    import zstandard

    stream = zstandard.ZstdCompressor(level=3).compressobj()
    return _Streaming(stream.compress, stream.flush)


_PACKERS: dict[int, Callable[[], Packer]] = {
    0: lambda: _Streaming(bytes, bytes),
    1: _gzip_packer,
    2: _snappy_packer,
    3: _lz4_packer,
    4: _zstd_packer,
}
_PACK: dict[int, Callable[[Buffer], bytes]] = {0: bytes, 1: _gzip, 2: _snap, 3: _lz4, 4: _zstd}
_UNPACK: dict[int, Callable[[Buffer, int], bytes]] = {
    0: lambda data, max_size: bytes(data),
    1: _gunzip,
    2: _unsnap,
    3: _unlz4,
    4: _unzstd,
}
_PIECES: dict[int, Callable[[Buffer], Iterator[bytes]]] = {
    0: lambda data: iter((bytes(data),)),
    1: _gzip_pieces,
    2: _snappy_pieces,
    3: _lz4_pieces,
    4: _zstd_pieces,
}
