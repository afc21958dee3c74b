"""The interfaces to the outside: time, randomness, the disk.  (The fourth, the network, is the event loop.)

Everything that is not a function of its input goes through one of these.  So the simulator can replace them
all, and one seed replays a whole cluster.  The real ones are `log.files.disk.OsDisk` and `server.loop.system`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from barnabas.model import Now, Uuid

__all__ = ["Buffer", "Clock", "DirectoryLock", "Disk", "DiskFile", "Randomness"]

Buffer: TypeAlias = bytes | bytearray | memoryview


class Clock(Protocol):
    """Time.  Cores never call it: they are handed a `Now`."""

    def now(self) -> Now:
        """Read monotonic seconds and wall milliseconds together."""
        ...


class Randomness(Protocol):
    """Chance, seedable."""

    def uniform(self, low: float, high: float) -> float:
        """A float in [low, high)."""
        ...

    def integer(self, low: int, high: int) -> int:
        """An int in [low, high], both included."""
        ...

    def uuid(self) -> Uuid:
        """A random (version 4) uuid that is none of Kafka's reserved ones and whose text starts not with '-'."""
        ...


class DiskFile(Protocol):
    """An open file that is only ever appended to, truncated, or read at a position."""

    path: str

    def append(self, parts: Sequence[Buffer]) -> int:
        """Write the parts one after the other at the end; returns the bytes written.

        Raises StorageError; the file then ends where it ended before (always so where the disk was `full`),
        or is unusable.
        """
        ...

    def read_at(self, position: int, size: int) -> bytes:
        """Read up to `size` bytes at `position`; fewer only at the end of the file."""
        ...

    def size(self) -> int:
        """Bytes written so far."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        ...

    def sync(self) -> None:
        """Make all that is written durable.  Thread-safe.  A failure is final: StorageError, never retried."""
        ...

    def fileno(self) -> int:
        """The descriptor for sendfile, or -1 where there is none (a simulated disk)."""
        ...

    def close(self) -> None:
        """Close without syncing."""
        ...


class DirectoryLock(Protocol):
    """A held lock on a log directory."""

    def release(self) -> None: ...


class Disk(Protocol):
    """Files and directories.  Paths are absolute or relative to the process, separated by '/'.

    Every method raises StorageError (from OSError) and nothing else.
    """

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> DiskFile: ...

    def read(self, path: str) -> bytes:
        """The whole of a small file."""
        ...

    def replace(self, path: str, content: bytes) -> None:
        """Write a small file atomically: temporary file, sync, rename, directory sync."""
        ...

    def rename(self, source: str, target: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def exists(self, path: str) -> bool: ...

    def is_directory(self, path: str) -> bool: ...

    def list(self, path: str) -> list[str]:
        """Names in a directory, sorted."""
        ...

    def make_directories(self, path: str) -> None: ...

    def sync_directory(self, path: str) -> None:
        """Make creations, renames and removals in a directory durable."""
        ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int: ...

    def set_modified_ms(self, path: str, wall_ms: int) -> None: ...

    def free_bytes(self, path: str) -> int:
        """Room left for this user on the volume of `path`."""
        ...

    def total_bytes(self, path: str) -> int:
        """The size of the volume of `path`."""
        ...

    def lock(self, path: str) -> DirectoryLock:
        """Take the lock file at `path`, or raise StorageError naming who holds it."""
        ...
