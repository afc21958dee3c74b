"""The order in which Java walks through a hash table.

Apache Kafka's assignors walk through such tables, so who gets which partition depends on it.  A group that
moves between our coordinator and Kafka's keeps its assignment because we walk in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from barnabas.model import Uuid

__all__ = ["copied_capacity", "grown_capacity", "in_java_order", "int_hash", "string_hash", "uuid_hash"]

_T = TypeVar("_T")

LEAST_CAPACITY = 16
_WORD = 0xFFFFFFFF


def string_hash(text: str) -> int:
    """Java's String.hashCode, as 32 bits without a sign."""
    value = 0
    raw = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(raw[::2], raw[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & _WORD
    return value


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
