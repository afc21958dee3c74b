"""Holding a directory: one process at a time works in it, and the hold ends with the process."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from barnabas.errors import BarnabasError
from barnabas.scratch import hold

__all__ = ["held_for"]


@contextlib.contextmanager
def held_for(job: str, folder: str) -> Iterator[None]:
    """Hold a directory that is there while a job runs, by its name or a link to it.

    Raises BarnabasError where another process holds it, or it cannot be held.
    """
    try:
        held = hold(os.path.realpath(folder))
    except BlockingIOError as error:
        raise BarnabasError(
            f"another process runs {job} in {folder}",
            next_step="`barnabas pipeline list` shows the jobs: wait for that one, or stop it",
        ) from error
    except OSError as error:
        raise BarnabasError(
            f"{folder} cannot be held for {job}: {error.strerror or error}",
            next_step="name a directory that you may read and write",
        ) from error
    try:
        yield
    finally:
        os.close(held)
