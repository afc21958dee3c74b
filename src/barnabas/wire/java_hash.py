"""Java's hash of a text, by which Apache Kafka orders names, and places them in its coordinators' topics."""

from __future__ import annotations

from functools import lru_cache

__all__ = ["java_hash", "string_hash"]

_WORD = 0xFFFFFFFF


@lru_cache(maxsize=1 << 14)
def string_hash(text: str) -> int:
    """Java's String.hashCode, as 32 bits without a sign."""
    value = 0
    raw = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(raw[::2], raw[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & _WORD
    return value


@lru_cache(maxsize=1024)  # a load asks for each record, and those of one group follow each other
def java_hash(text: str) -> int:
    """Java's String.hashCode as a non-negative number (the smallest int counts as 0), as Kafka places groups."""
    value = string_hash(text)
    signed = value - (1 << 32) if value >= 1 << 31 else value
    return 0 if signed == -(1 << 31) else abs(signed)
