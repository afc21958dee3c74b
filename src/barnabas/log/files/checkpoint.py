"""Kafka's small text files: a version line, a count, then that many rows.

`leader-epoch-checkpoint` has rows "epoch start-offset"; the `*-offset-checkpoint` files of a log directory
have rows "topic partition offset".  They are replaced atomically, so a torn one means a broken disk or a
foreign hand; a reader that can rebuild the content says so by catching the StorageError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, TypeVar

from barnabas.errors import StorageError
from barnabas.model import Epoch, Offset, TopicPartition
from barnabas.ports import Disk

__all__ = [
    "CLEANER_OFFSETS",
    "HIGH_WATERMARKS",
    "LOG_STARTS",
    "RECOVERY_POINTS",
    "epoch_rows",
    "put_in_place",
    "read_epochs",
    "read_offsets",
    "write_offsets",
]

HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"

T = TypeVar("T")


def _rows(disk: Disk, path: str, row: Callable[[list[str]], T]) -> list[T]:
    try:
        lines = disk.read(path).decode("utf-8").splitlines()
        if not lines:
            return []
        if lines[0].strip() != "0":
            raise ValueError(f"version {lines[0]!r} is not known")
        count = int(lines[1])
        found = [row(line.split()) for line in lines[2:] if line.strip()]
        if len(found) != count:
            raise ValueError(f"{count} rows expected, {len(found)} found")
    except (ValueError, IndexError, UnicodeDecodeError) as error:
        raise StorageError(
            f"{path} is not a checkpoint file: {error}",
            next_step="remove the file; what it held is rebuilt from the logs on the next start",
        ) from error
    return found


def _text(rows: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in ("0", str(len(rows)), *rows)).encode()


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, Offset]:
    """Read "topic partition offset" rows; {} when there is no file.

    Raises StorageError when it is corrupt.
    """
    if not disk.exists(path):
        return {}

    def row(words: list[str]) -> tuple[TopicPartition, Offset]:
        topic, partition, offset = words
        return TopicPartition(topic, int(partition)), int(offset)

    return dict(_rows(disk, path, row))


def write_offsets(
    disk: Disk, path: str, offsets: Mapping[TopicPartition, Offset], *, durable: bool = True
) -> None:
    """Replace an offset checkpoint atomically; `durable`: synced before this returns."""
    text = _text([f"{tp.topic} {tp.partition} {offset}" for tp, offset in offsets.items()])
    (disk.replace if durable else partial(put_in_place, disk))(path, text)


def put_in_place(disk: Disk, path: str, content: bytes) -> None:
    """Replace a small file atomically without waiting for the disk: a crash may leave the old one, or an
    empty one."""
    file = disk.open(f"{path}.tmp", create=True)
    try:
        file.truncate(0)
        file.append([content])
    finally:
        file.close()
    disk.rename(f"{path}.tmp", path)


def read_epochs(disk: Disk, path: str) -> list[tuple[Epoch, Offset]]:
    """Read "epoch start-offset" rows; [] when there is no file.  Raises StorageError when it is corrupt."""
    if not disk.exists(path):
        return []

    def row(words: list[str]) -> tuple[Epoch, Offset]:
        epoch, start = words
        return int(epoch), int(start)

    return _rows(disk, path, row)


def epoch_rows(entries: Iterable[tuple[Epoch, Offset]]) -> bytes:
    """The content of `leader-epoch-checkpoint`."""
    return _text([f"{epoch} {start}" for epoch, start in entries])
