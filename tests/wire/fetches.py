"""Fetches of every shape and their rows, and what damage makes of their bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st
from tests.frames import frame

from barnabas.model import Uuid
from barnabas.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic

__all__ = ["damaged", "framed", "ids", "int32", "int64", "named", "positions", "topic_of"]

int32, int64 = st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-(1 << 63), (1 << 63) - 1)
ids = st.binary(min_size=16, max_size=16).map(Uuid)
positions = st.builds(
    FetchPartition,
    partition=int32,
    current_leader_epoch=int32,
    fetch_offset=int64,
    last_fetched_epoch=int32,
    log_start_offset=int64,
    partition_max_bytes=int32,
)


def named(**name: st.SearchStrategy[Any]) -> st.SearchStrategy[list[FetchTopic]]:
    """Lists of topics, each with a name, an id or both."""
    topic = st.builds(FetchTopic, partitions=st.lists(positions, max_size=4), **name)
    return st.lists(topic, max_size=3)


def topic_of(partitions: int) -> list[FetchTopic]:
    """One topic with so many partitions."""
    rows = [FetchPartition(partition=n) for n in range(partitions)]
    return [FetchTopic(topic="topic", topic_id=Uuid(b"t" * 16), partitions=rows)]


def framed(request: FetchRequest, version: int, correlation: int = 1) -> memoryview:
    """The frame of a request, without its length."""
    return memoryview(frame(request, version, correlation))[4:]


def damaged(good: bytes | memoryview, begin: int = 0) -> Iterator[tuple[int, memoryview]]:
    """Every byte from `begin` on replaced by others, one at a time, with its place."""
    for place in range(begin, len(good)):
        for value in (0, 1, 2, 0x7F, 0x80, 0xFF):
            bad = memoryview(bytearray(good))
            bad[place] = value
            yield place, bad
