"""The order in which Apache Kafka walks through its hash tables, Java's and its own.

Its assignors walk through such tables, so who gets which partition depends on it.  A group that moves between
our coordinator and Kafka's keeps its assignment because we walk in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from barnabas.model import Uuid
from barnabas.wire.java_hash import string_hash

__all__ = [
    "LEAST_TIMELINE_CAPACITY",
    "copied_capacity",
    "grown_capacity",
    "in_java_order",
    "in_timeline_order",
    "int_hash",
    "uuid_hash",
]

_T = TypeVar("_T")

LEAST_CAPACITY = 16
LEAST_TIMELINE_CAPACITY = 2
_FIBONACCI = -7046029254386353131
_LONG = 0xFFFFFFFFFFFFFFFF
_WORD = 0xFFFFFFFF


def uuid_hash(id: Uuid) -> int:
    """The hash of a topic id in Kafka, as 32 bits without a sign."""
    halves = int.from_bytes(id[:8], "big") ^ int.from_bytes(id[8:], "big")
    return (halves >> 32 ^ halves) & _WORD


def int_hash(number: int) -> int:
    """The hash of a partition's index."""
    return number & _WORD


def grown_capacity(count: int) -> int:
    """Buckets of a table that grew to `count` entries (it doubles when it is more than three quarters full)."""
    capacity = LEAST_CAPACITY
    while count > capacity * 3 // 4:
        capacity *= 2
    return capacity


def copied_capacity(count: int) -> int:
    """Buckets of a set that was made from a collection of `count` elements."""
    needed = max(int(count / 0.75) + 1, LEAST_CAPACITY)
    return 1 << (needed - 1).bit_length()


def in_java_order(items: Iterable[_T], hash_of: Callable[[_T], int], capacity: int) -> Sequence[_T]:
    """The items as a table with so many buckets gives them; those of one bucket stay in the order given."""

    def bucket(item: _T) -> int:
        value = hash_of(item)
        return (value ^ value >> 16) & (capacity - 1)

    return sorted(items, key=bucket)


def in_timeline_order(names: Iterable[str], capacity: int) -> list[str]:
    """Names as a table of Kafka's timeline package gives them, which has so many slots (a power of two).

    `names` come in the order in which they went in; of one slot the last comes first.
    """
    slots: dict[int, list[str]] = {}
    bits = capacity.bit_length() - 1
    for name in names:
        value = string_hash(name)
        signed = value - (1 << 32) if value >> 31 else value
        slots.setdefault((signed * _FIBONACCI & _LONG) >> (64 - bits), []).append(name)
    return [name for slot in sorted(slots) for name in reversed(slots[slot])]
