"""A full page cache, as it is on a machine whose brokers have run for a day.

On a virtual machine, memory that was never used, or was given back (a host may take what is free for two
seconds), costs several times more to write to than memory that the kernel takes from an old file: 0.8 against
0.18 CPU seconds a GB where this was measured.  Topics are deleted after each run.  Without this, every run would
pay for the host's work, the same on both sides, and hide that of the brokers.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

FREE_ENOUGH_MB = 400
"""The kernel starts to take pages back at about half of that."""
_PIECE_BYTES = 4 << 20


class PageCache:
    """Fills free memory with the pages of a file that has no blocks on the disk."""

    def __init__(self, folder: Path, *, used: bool) -> None:
        """The file lies in `folder`, which is on a disk (a tmpfs keeps no pages of holes); not `used`: nothing is
        filled, for nobody compares."""
        self._size = _memory_mb("MemTotal") << 20 if used else 0
        self._file = (folder / "filler").open("w+b", buffering=0)
        self._file.truncate(self._size)
        self._piece = bytearray(_PIECE_BYTES)
        self._position = 0

    def fill(self) -> None:
        """Have the rest of the memory taken, by the pages that were taken back first."""
        for _ in range(self._size // _PIECE_BYTES):
            if _memory_mb("MemFree") <= FREE_ENOUGH_MB:
                return
            self._file.seek(self._position)
            self._position += self._file.readinto(self._piece) or -self._position

    def __enter__(self) -> PageCache:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.truncate(0)
        self._file.close()


def _memory_mb(what: str) -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) >> 10
    raise SystemExit(f"error: /proc/meminfo does not say {what}\n  next: run the benchmarks on Linux")
