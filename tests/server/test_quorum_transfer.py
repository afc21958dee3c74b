"""What controllers read from their disks for each other: never more at once than the loop can bear."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from barnabas.raft.entries import SnapshotId
from barnabas.raft.messages import ReadLog, ReadSnapshot
from barnabas.server.quorum_transfer import MOST_AT_ONCE, read_log, read_piece
from barnabas.sim.disk import MemoryDisk


@pytest.mark.parametrize(("asked", "read"), [((1 << 31) - 1, MOST_AT_ONCE), (1000, 1000)])
def test_who_asks_for_everything_gets_a_piece(asked: int, read: int) -> None:
    wanted: list[int] = []

    def records(offset: int, max_bytes: int, end: int) -> Any:
        wanted.append(max_bytes)
        return SimpleNamespace(read=bytes)

    assert read_log(cast("Any", SimpleNamespace(read=records)), ReadLog(0, asked, 9)) == b""
    assert wanted == [read]
    disk = MemoryDisk()
    disk.make_directories("data")
    disk.put("data/00000000000000000009-0000000002.checkpoint", bytes(MOST_AT_ONCE + 5))
    piece = read_piece(disk, "data", ReadSnapshot(SnapshotId(9, 2), 0, asked))
    assert len(piece) == read
