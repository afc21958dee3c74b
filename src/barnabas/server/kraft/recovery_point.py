"""The recovery point of the metadata log: a lower bound of what this directory must still hold.

A log alone cannot tell a write that a crash tore from records that a disk lost: both look like a bad end.  So
`recovery-point.json` beside the segments says from time to time: everything below this offset was durable
here *and* committed, and the record before it has this epoch.  The node refuses a log that ends below this
offset, or is damaged below it; otherwise it would forget what it acknowledged, and vote.

Only what is committed counts, because that is never undone.  So no truncation can make the recovery point too
high, not even one by an Apache Kafka node that ran on the directory meanwhile and does not know the file.
The file may be old; then it protects less.  It is not part of any append: one small file every few seconds.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from crc32c import crc32c

from barnabas.errors import StorageError
from barnabas.log.recovery import START_ANEW
from barnabas.model import Epoch, Offset
from barnabas.ports import Disk

__all__ = ["NO_POINT", "POINT_EVERY_S", "RECOVERY_POINT", "RecoveryPoint", "read_point", "write_point"]

RECOVERY_POINT: Final = "recovery-point.json"
POINT_EVERY_S: Final = 5.0
"""Seconds between two writes of the file, at least."""


class RecoveryPoint(NamedTuple):
    """Everything below `offset` is durable and committed; `epoch` is that of the record before it."""

    offset: Offset
    epoch: Epoch

    @property
    def checksum(self) -> int:
        return int(crc32c(b"%d %d" % self))


NO_POINT: Final = RecoveryPoint(0, 0)


def read_point(disk: Disk, directory: str) -> RecoveryPoint:
    """What the file says, NO_POINT where there is none (a new directory, or one of Apache Kafka).

    Raises StorageError (fatal) when it is senseless: it is replaced atomically, so the disk changed it.
    """
    path = f"{directory}/{RECOVERY_POINT}"
    if not disk.exists(path):
        return NO_POINT
    try:
        content = json.loads(disk.read(path))
        if content["version"] != 0:
            raise ValueError(f"version {content['version']} is not known")
        point = RecoveryPoint(int(content["offset"]), int(content["epoch"]))
        if content["checksum"] != point.checksum:
            raise ValueError("its checksum is wrong")
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise StorageError(
            f"{path} is senseless: {error}",
            directory=directory,
            next_step=START_ANEW,
            fatal=True,
        ) from error
    return point


def write_point(disk: Disk, directory: str, point: RecoveryPoint) -> None:
    """Replace the file, atomically and durably.  Raises StorageError."""
    content = {"version": 0, "offset": point.offset, "epoch": point.epoch, "checksum": point.checksum}
    disk.replace(f"{directory}/{RECOVERY_POINT}", json.dumps(content, separators=(",", ":")).encode())
