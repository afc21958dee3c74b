"""Our own mutator, for where there is no atheris, and for the shortest runs: a few small harms to a kept input."""

from __future__ import annotations

import random
from collections.abc import Sequence

__all__ = ["mutated"]

_BYTES = (0, 1, 0x7F, 0x80, 0xFE, 0xFF)
_NUMBERS = tuple(
    (value & ((1 << bits) - 1)).to_bytes(bits // 8, order)  # type: ignore[arg-type]
    for bits in (16, 32, 64)
    for value in (0, 1, -1, -2, 1 << bits - 1, (1 << bits - 1) - 1, 65536)
    for order in ("big", "little")
)


def mutated(rng: random.Random, corpus: Sequence[bytes], words: Sequence[bytes], longest: int) -> bytes:
    """One new input."""
    data = bytearray(rng.choice(corpus))
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        _harm(rng, data, corpus, words)
    return bytes(data[:longest])


def _harm(rng: random.Random, data: bytearray, corpus: Sequence[bytes], words: Sequence[bytes]) -> None:
    kind = rng.randrange(9 if words else 8)
    at = rng.randrange(len(data) + 1)
    until = min(len(data), at + rng.choice((1, 2, 4, 16, 64)))
    if kind == 0 and at < len(data):
        data[at] ^= 1 << rng.randrange(8)
    elif kind == 1 and at < len(data):
        data[at] = rng.choice(_BYTES)
    elif kind == 2:
        del data[at:until]
    elif kind == 3:
        data[at:at] = rng.randbytes(rng.choice((1, 2, 4, 16)))
    elif kind == 4:
        data[at:at] = data[at:until] * rng.choice((1, 2, 30))
    elif kind == 5:
        number = rng.choice(_NUMBERS)
        data[at : at + len(number)] = number
    elif kind == 6:
        other = rng.choice(corpus)
        start = rng.randrange(len(other) + 1)
        data[at:] = other[start:]
    elif kind == 7:
        del data[at:]
    elif words:
        word = rng.choice(words)
        data[at : at if rng.random() < 0.5 else at + len(word)] = word
