"""The real clock and the real randomness (two of the four ports; the simulator has its own), and how many
files the system lets this process have open."""

from __future__ import annotations

import os
import random
import resource
import time
from contextlib import suppress

from barnabas.model import Now, Uuid

__all__ = [
    "SystemClock",
    "SystemRandomness",
    "descriptor_advice",
    "most_descriptors",
    "raise_descriptor_limit",
]

_ENOUGH = 1 << 20
_new = tuple.__new__  # what NamedTuple's constructor calls, without its keywords


class SystemClock:
    """Time as the operating system tells it."""

    __slots__ = ()

    def now(self) -> Now:
        """Read monotonic seconds and wall milliseconds together."""
        return _new(Now, (time.monotonic(), time.time_ns() // 1_000_000))


class SystemRandomness:
    """Chance from the operating system."""

    __slots__ = ("_random",)

    def __init__(self) -> None:
        self._random = random.Random(os.urandom(16))

    def uniform(self, low: float, high: float) -> float:
        """A float in [low, high)."""
        return self._random.uniform(low, high)

    def integer(self, low: int, high: int) -> int:
        """An int in [low, high], both included."""
        return self._random.randint(low, high)

    def uuid(self) -> Uuid:
        """A random (version 4) uuid whose text does not begin with '-' (like an option)."""
        while True:
            raw = bytearray(os.urandom(16))
            raw[6] = raw[6] & 0x0F | 0x40
            raw[8] = raw[8] & 0x3F | 0x80
            found = Uuid(raw)
            if not str(found).startswith("-"):
                return found


def cores() -> int:
    """How many cores this process may use: those that it may run on, and no more than its control group has."""
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:
            quota, period = file.read().split()
        return max(1, min(own, int(quota) // int(period)))
    except (OSError, ValueError):  # no control group, or "max": no limit
        return own


def most_descriptors() -> int:
    """How many files and sockets this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _ENOUGH if soft == resource.RLIM_INFINITY else soft


def descriptor_advice(wanted: int) -> str:
    """How somebody lets a node have so many files open."""
    return f"LimitNOFILE={wanted} in its systemd unit, or `ulimit -n {wanted}` where it is started"


def raise_descriptor_limit() -> None:
    """Take as many descriptors as this user may have: a log that cannot open its next segment is lost."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # (some systems have a lower limit than they say)
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
