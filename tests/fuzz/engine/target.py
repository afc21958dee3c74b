"""A target is one door that bytes come in by; a judge puts bytes to it and says what was wrong.

Wrong is: an exception that the door does not declare, more processor time than its limit, more memory than its
limit.  A door that has a model beside it compares with it, and an AssertionError is a finding like any other.
"""

from __future__ import annotations

import gc
import resource
import time
import traceback
import tracemalloc
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Finding", "Judge", "Target", "limit_ns"]

FLOOR_NS, NS_PER_BYTE = 50_000_000, 1_000
"""No input costs more processor time than that: 50 ms, and a microsecond for each byte."""
FLOOR_KIB, KIB_PER_BYTE = 96 * 1024, 0.2
"""Nor more memory: what one batch may unpack to and half as much again, and 200 bytes for each byte."""

One = Callable[[bytes], Hashable]
"""Puts one input to the door.  Returns what was seen, in short: an input that shows something new is kept."""


@dataclass(frozen=True)
class Target:
    """`make` opens the door once; `errors` are those it declares; `words` are what its language is made of."""

    name: str
    what: str
    make: Callable[[], One]
    errors: tuple[type[BaseException], ...]
    seeds: Callable[[], Iterable[bytes]]
    words: tuple[bytes, ...] = ()
    longest: int = 4096
    slow_start: bool = False
    """Whether opening the door costs seconds (a node): the shortest form gives it fewer inputs."""


class Finding(NamedTuple):
    """`kind` is "exception", "slow" or "memory"; two of the same `key` are taken for one."""

    target: str
    kind: str
    key: str
    text: str
    data: bytes


def limit_ns(size: int) -> int:
    """How much processor time an input of that size may cost."""
    return FLOOR_NS + NS_PER_BYTE * size


class Judge:
    """One target, opened.  `patience` stretches the limit of time, for code that counts its own coverage."""

    def __init__(self, target: Target, patience: int = 1) -> None:
        self.target = target
        self._one = target.make()
        self._patience = patience
        gc.collect()
        gc.freeze()
        self._peak = _peak_kib()

    def look(self, data: bytes) -> tuple[Finding | None, Hashable]:
        """What was wrong with one input, and what was seen."""
        began = time.process_time_ns()
        error, seen = self._put(data)
        spent = time.process_time_ns() - began
        if error is not None:
            return self._exception(data, error), seen
        limit = limit_ns(len(data)) * self._patience
        if spent > limit and (least := min(spent, self._cost(data), self._cost(data))) > limit:
            text = f"{least / 1e6:.0f} ms of processor time for {len(data)} bytes, thrice"
            return Finding(self.target.name, "slow", f"slow {seen}", text, data), seen
        peak = _peak_kib()
        if peak > self._peak:
            most = FLOOR_KIB + KIB_PER_BYTE * len(data)
            grew, self._peak = peak - self._peak, peak
            if grew > most and (held := self._held_kib(data)) > most:
                text = f"{held / 1024:.0f} MiB for {len(data)} bytes"
                return Finding(self.target.name, "memory", f"memory {seen}", text, data), seen
        return None, seen

    def _put(self, data: bytes) -> tuple[Exception | None, Hashable]:
        try:
            return None, self._one(data)
        except self.target.errors as error:
            return None, _where(error)
        except Exception as error:
            return error, _where(error)

    def _cost(self, data: bytes) -> int:
        began = time.process_time_ns()
        self._put(data)
        return time.process_time_ns() - began

    def _held_kib(self, data: bytes) -> float:
        tracemalloc.start()
        try:
            self._put(data)
            return tracemalloc.get_traced_memory()[1] / 1024
        finally:
            tracemalloc.stop()

    def _exception(self, data: bytes, error: Exception) -> Finding:
        key = f"{type(error).__name__} {_where(error)}"
        return Finding(self.target.name, "exception", key, "".join(traceback.format_exception(error)), data)


def _where(error: BaseException) -> tuple[str, str, int]:
    """Which error, and the line of ours that it came from."""
    place, trace = ("", 0), error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if "barnabas" in name or name.startswith("<"):
            place = (name.rpartition("/")[2], trace.tb_lineno)
        trace = trace.tb_next
    return type(error).__name__, *place


def _peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
