"""Reserved space for the metadata: a file without content, deleted when its volume is full.

A controller cannot wait for space, because others act upon its records.  So it keeps a file beside the
metadata log.  A write that finds no room removes the file and is repeated.  From then on the controller
refuses new topics and partitions, which need most space.  Leaders still change, settings that free space can
be set, and topics be deleted.  When there is room for the file again, the controller makes it again and
accepts everything.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from barnabas.errors import ErrorCode, KafkaError, StorageError
from barnabas.ports import Disk
from barnabas.server.observe import events

__all__ = ["FILE", "Reserve"]

FILE: Final = "barnabas-reserve"
_LOOK_EVERY = 5.0
_REFUSED = frozenset((19, 37))
"""API keys: CreateTopics, CreatePartitions."""

NO_ROOM = events.register(
    "quorum.no-room", logging.ERROR, "the volume of the metadata is full: topics and partitions are refused"
)
HAS_ROOM = events.register("quorum.has-room", logging.INFO, "the volume of the metadata has room again")


class Reserve:
    """The file.  `size` 0: there is none, and a write without room is the end."""

    __slots__ = ("_disk", "_look_at", "_path", "held", "short", "size")

    def __init__(self, disk: Disk, directory: str, size: int) -> None:
        self.size = size
        self.held = False
        """Whether the file is there, whole."""
        self.short = False
        """Whether it had to be given up, and is not back."""
        self._disk = disk
        self._path = f"{directory}/{FILE}"
        self._look_at = 0.0

    def __repr__(self) -> str:
        return f"<Reserve {self.size} {'held' if self.held else 'short' if self.short else 'not made'}>"

    def spend(self, write: Callable[[], None]) -> None:
        """Write something; where that finds no room, give the file up and write it again.  Raises StorageError."""
        try:
            write()
        except StorageError as error:
            if not (error.full and self.give_up(error)):
                raise
            write()

    def give_up(self, error: StorageError) -> bool:
        """A write found no room.  Whether the file was there, and makes some."""
        if not self.held or error.descriptors:
            return False
        self.held, self.short = False, True
        self._disk.remove(self._path)
        events.emit(NO_ROOM, error=error)
        return True

    def is_due(self, mono: float) -> bool:
        """Whether to try to `make` it now."""
        if self.held or not self.size or mono < self._look_at:
            return False
        self._look_at = mono + _LOOK_EVERY
        return True

    def make(self) -> None:
        """Make the file, in a thread.  Raises StorageError."""
        file = self._disk.open(self._path, create=True)
        try:
            if (missing := self.size - file.size()) > 0:
                file.append([bytes(missing)])
                file.sync()
        finally:
            file.close()

    def made(self, error: BaseException | None) -> None:
        """`make` has run."""
        if error is None:
            self.held = True
            if self.short:
                self.short = False
                events.emit(HAS_ROOM, bytes=self.size)

    def refuse(self, key: int | None) -> KafkaError | None:
        """Why a request of this API is not decided just now."""
        if not self.short or key not in _REFUSED:
            return None
        return KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            "the volume of the controller's metadata is full",
            next_step="free space on it; this is taken again when there is some",
        )
