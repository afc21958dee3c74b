"""What is done to a frame before it is sent.  Each takes the whole frame, its length included, and gives bytes.

A mutation keeps the length in front right (`framed`) unless lying about it is its point.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

from tests.frames import framed

__all__ = ["MUTATIONS", "Mutation"]

Mutation = Callable[[bytes, random.Random, bytes], bytes]
"""(frame, randomness, another frame) -> what is sent."""
HEAD = 4
HUGE_COUNTS = (2**31 - 1, -(2**31), -1, -2, 0x00FFFFFF, 65536)
MUTATIONS: dict[str, Mutation] = {}


def mutation(function: Mutation) -> Mutation:
    """Add one to the table, under its name."""
    MUTATIONS[function.__name__] = function  # type: ignore[attr-defined]
    return function


def _place(frame: bytes, rng: random.Random, room: int = 1) -> int:
    """Somewhere behind the length, with `room` bytes to come; often in the header, where few bytes decide much."""
    last = max(HEAD, len(frame) - room)
    return rng.randint(HEAD, min(last, HEAD + 24)) if rng.random() < 0.3 else rng.randint(HEAD, last)


@mutation
def as_it_is(frame: bytes, rng: random.Random, other: bytes) -> bytes:
    return frame


@mutation
def flip_bits(frame: bytes, rng: random.Random, other: bytes) -> bytes:
    changed = bytearray(frame)
    for _ in range(rng.choice((1, 1, 2, 8))):
        changed[_place(frame, rng)] ^= 1 << rng.randrange(8)
    return bytes(changed)


@mutation
def set_bytes(frame: bytes, rng: random.Random, other: bytes) -> bytes:
    changed = bytearray(frame)
    for _ in range(rng.choice((1, 2, 4))):
        changed[_place(frame, rng)] = rng.choice((0, 1, 0x7F, 0x80, 0xFE, 0xFF))
    return bytes(changed)


@mutation
def cut_short(frame: bytes, rng: random.Random, other: bytes) -> bytes:
    return framed(frame[HEAD : _place(frame, rng)])


@mutation
def cut_and_hang_up(frame: bytes, rng: random.Random, other: bytes) -> bytes:
    """The length promises more than comes before the end of the connection."""
    return frame[: _place(frame, rng)]


@mutation
def append_junk(frame: bytes, rng: random.Random, other: bytes) -> bytes:
    return framed(frame[HEAD:] + rng.randbytes(rng.choice((1, 2, 3, 4, 40))))


@mutation
def insert_bytes(frame: bytes, rng: random.Random, other: bytes) -> bytes:
    place = _place(frame, rng)
    return framed(frame[HEAD:place] + rng.randbytes(rng.choice((1, 2, 4, 16))) + frame[place:])


@mutation
def drop_slice(frame: bytes, rng: random.Random, other: bytes) -> bytes:
    place = _place(frame, rng)
    return framed(frame[HEAD:place] + frame[place + rng.choice((1, 2, 4, 16)) :])


@mutation
def repeat_slice(frame: bytes, rng: random.Random, other: bytes) -> bytes:
    place = _place(frame, rng)
    piece = frame[place : place + rng.choice((1, 4, 16, 64))]
    return framed(frame[HEAD:place] + piece * rng.choice((2, 3, 50)) + frame[place:])


@mutation
def swap_slices(frame: bytes, rng: random.Random, other: bytes) -> bytes:
    first, second = sorted((_place(frame, rng), _place(frame, rng)))
    return framed(frame[HEAD:first] + frame[second:] + frame[first:second])


@mutation
def huge_number(frame: bytes, rng: random.Random, other: bytes) -> bytes:
    """Four bytes that may be the count of an array or the length of a string."""
    if len(frame) < HEAD + 14:
        return frame
    changed = bytearray(frame)
    struct.pack_into(">i", changed, rng.randint(HEAD + 10, len(frame) - 4), rng.choice(HUGE_COUNTS))
    return bytes(changed)


@mutation
def huge_short(frame: bytes, rng: random.Random, other: bytes) -> bytes:
    """Two bytes that may be the length of a string of the old encoding."""
    changed = bytearray(frame)
    place = rng.randint(HEAD, len(frame) - 2)
    struct.pack_into(">h", changed, place, rng.choice((32767, -1, -2, -32768, 4096)))
    return bytes(changed)


@mutation
def long_varint(frame: bytes, rng: random.Random, other: bytes) -> bytes:
    """A varint that never ends, or says 2^32 - 1, or 2^63."""
    place = _place(frame, rng)
    varint = rng.choice(
        (b"\xff" * 11, b"\xff\xff\xff\xff\x0f", b"\xff" * 9 + b"\x01", b"\x80\x00", b"\x80" * 4)
    )
    return framed(frame[HEAD:place] + varint + frame[place + 1 :])


@mutation
def tagged_fields(frame: bytes, rng: random.Random, other: bytes) -> bytes:
    """Tagged fields nobody knows, out of order, twice, or longer than the frame."""
    body = frame[HEAD:-1]
    count = rng.choice((1, 3, 200))
    tags = b"".join(
        bytes((rng.randrange(128), size)) + rng.randbytes(rng.choice((size, size, 0)))
        for size in (rng.randrange(20) for _ in range(min(count, 100)))
    )
    return framed(body + bytes((count & 0x7F,)) + tags)


@mutation
def other_version(frame: bytes, rng: random.Random, other: bytes) -> bytes:
    changed = bytearray(frame)
    struct.pack_into(">h", changed, HEAD + 2, rng.choice((*range(20), -1, 32767, -32768)))
    return bytes(changed)


@mutation
def other_api(frame: bytes, rng: random.Random, other: bytes) -> bytes:
    changed = bytearray(frame)
    struct.pack_into(">h", changed, HEAD, rng.choice((*range(95), -1, 32767, 1000)))
    return bytes(changed)


@mutation
def splice(frame: bytes, rng: random.Random, other: bytes) -> bytes:
    """The beginning of one request and the end of another."""
    return framed(frame[HEAD : _place(frame, rng)] + other[_place(other, rng) :])


@mutation
def length_too_small(frame: bytes, rng: random.Random, other: bytes) -> bytes:
    """What is left of the frame is read as the next one."""
    return struct.pack(">i", rng.randint(1, max(1, len(frame) - HEAD - 1))) + frame[HEAD:]


@mutation
def length_is_none(frame: bytes, rng: random.Random, other: bytes) -> bytes:
    return struct.pack(">i", rng.choice((0, -1, -(2**31), 2**31 - 1, 200_000_000))) + frame[HEAD:]


@mutation
def noise(frame: bytes, rng: random.Random, other: bytes) -> bytes:
    """A header that is served, and a body of chance."""
    return framed(frame[HEAD : HEAD + 10] + rng.randbytes(rng.choice((0, 1, 8, 60, 400))))


@mutation
def zeros(frame: bytes, rng: random.Random, other: bytes) -> bytes:
    return framed(frame[HEAD : HEAD + 10] + bytes(rng.choice((0, 1, 4, 33, 400))))


@mutation
def two_at_once(frame: bytes, rng: random.Random, other: bytes) -> bytes:
    return frame + other


@mutation
def many_at_once(frame: bytes, rng: random.Random, other: bytes) -> bytes:
    return frame * rng.choice((5, 20))


@mutation
def foreign_protocol(frame: bytes, rng: random.Random, other: bytes) -> bytes:
    return rng.choice(
        (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00" + frame, b"SSH-2.0-x\r\n", b"\r\n" * 9)
    )
