"""The directory of results: only what a demo wrote is ever removed, and two demos do not share it."""

from __future__ import annotations

import fcntl
import os
import shutil

from barnabas.errors import BarnabasError

__all__ = ["ResultDirectory"]

MARK = ".barnabas-demo"
_OURS = ("delays.parquet", "demo.png", "work", "flights", "delays", "delays.png")
"""The last three were made by earlier releases."""


class ResultDirectory:
    """`path` with `delays.parquet` and `demo.png`, and `work/` while it runs."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self.work = os.path.join(self.path, "work")
        mark = os.path.join(self.path, MARK)
        if os.path.isdir(self.path) and os.listdir(self.path) and not os.path.exists(mark):
            raise BarnabasError(
                f"{self.path} holds files that no demo wrote",
                next_step="give an empty or new directory with --output",
            )
        try:
            os.makedirs(self.path, exist_ok=True)
            self._lock = open(mark, "w", encoding="utf-8")  # noqa: SIM115 (held until we end)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BarnabasError(
                f"another demo writes to {self.path}", next_step="wait for it, or give another --output"
            ) from error
        except OSError as error:
            raise BarnabasError(f"cannot write to {self.path}: {error}") from error
        for name in _OURS:
            _remove(os.path.join(self.path, name))
        os.makedirs(self.work)

    def __repr__(self) -> str:
        return f"<ResultDirectory {self.path}>"

    def close(self) -> None:
        """Let another demo write here."""
        self._lock.close()

    def forget_work(self) -> None:
        """Remove the nodes' data, the checkpoint and the logs."""
        _remove(self.work)


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
        os.unlink(path)
