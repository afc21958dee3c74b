"""Many seeds at once, in a pool of processes."""

from __future__ import annotations

import gc
import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

__all__ = ["run_in_pool"]

R = TypeVar("R")


def run_in_pool(
    run_seed: Callable[[int], R], seeds: Iterable[int], *, jobs: int, seeds_each: int, at_a_time: int = 1
) -> Iterator[R]:
    """Run these seeds in `jobs` processes; the reports come as they get ready.

    A process gets `at_a_time` seeds at once, and is replaced after `seeds_each` such portions.
    """
    if jobs <= 1:
        yield from map(run_seed, seeds)
        return
    context = multiprocessing.get_context("fork")
    with context.Pool(jobs, _prepare, maxtasksperchild=seeds_each) as pool:
        yield from pool.imap_unordered(run_seed, seeds, chunksize=at_a_time)


def _prepare() -> None:
    """A process of the pool: it is ended by the one that reads the reports, not by the keyboard."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    gc.freeze()
