"""The memory of a process while something happens to it."""

from __future__ import annotations

import threading
from pathlib import Path

__all__ = ["Memory"]


class Memory(threading.Thread):
    """The most memory that a process had since the thread began, in MiB."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._status = Path(f"/proc/{pid}/status")
        self._over = threading.Event()
        self.most = 0.0

    def run(self) -> None:
        while not self._over.wait(0.02):
            self.most = max(self.most, self.now())

    def now(self) -> float:
        return int(self._status.read_text().partition("VmRSS:")[2].split()[0]) / 1024

    def stop(self) -> float:
        self._over.set()
        self.join()
        return self.most
