"""Which partition a record goes to: the same as Apache Kafka's own clients choose.

A key decides by murmur2, so that producers in all languages agree.  Records without a key stick to one
partition until its batch is full (KIP-480), which makes fewer and larger batches than a round robin.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["StickyPartition", "murmur2", "partition_of_key"]

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """`murmur2(b"21")` -> -973932308: the 32-bit MurmurHash2 (Austin Appleby) with Kafka's seed, signed."""
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _MULTIPLIER & _MASK
        k ^= k >> 24
        h = (h * _MULTIPLIER & _MASK) ^ (k * _MULTIPLIER & _MASK)
    if whole != length:
        h ^= int.from_bytes(data[whole:], "little")
        h = h * _MULTIPLIER & _MASK
    h ^= h >> 13
    h = h * _MULTIPLIER & _MASK
    h ^= h >> 15
    return h - (1 << 32) if h & 0x80000000 else h


def partition_of_key(key: bytes, partitions: int) -> int:
    """`partition_of_key(b"k", 12)`: the partition (0 to partitions - 1) that Kafka's clients choose too."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


class StickyPartition:
    """Where records without a key go: one partition for a batch, then another, never the same twice."""

    __slots__ = ("_choose", "_current")

    def __init__(self, choose: Callable[[int], int]) -> None:
        """`choose(n)` picks a number below n (`random.randrange`, or a test's own)."""
        self._choose = choose
        self._current: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"<StickyPartition {self._current}>"

    def current(self, topic: str, candidates: list[int]) -> int:
        """The partition that keyless records of `topic` go to now."""
        partition = self._current.get(topic)
        if partition is None or partition not in candidates:
            partition = self._current[topic] = candidates[self._choose(len(candidates))]
        return partition

    def batch_full(self, topic: str, candidates: list[int]) -> None:
        """The batch is complete: move on to another partition."""
        others = [p for p in candidates if p != self._current.get(topic)]
        if others:
            self._current[topic] = others[self._choose(len(others))]
