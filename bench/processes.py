"""What a process cost: CPU seconds and memory from /proc, and how busy the machine is."""

from __future__ import annotations

import os
import platform
import signal
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

TICKS = os.sysconf("SC_CLK_TCK")
PATIENT: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(("broker.session.timeout.ms", "controller.quorum.fetch.timeout.ms"), "1800000")
)
"""Settings of a node that is `stopped` now and then, after which nobody takes another for dead."""


@contextmanager
def stopped(pids: Iterable[int]) -> Iterator[None]:
    """These processes do not run meanwhile, for at rest they cost others the caches of the cores: three nodes of
    Apache Kafka, which take 0.19 cores after a load, made one record on three of ours 12 % dearer."""
    held = list(pids)
    try:
        for pid in held:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in held:
            os.kill(pid, signal.SIGCONT)


def own_environment() -> dict[str, str]:
    """Return the environment of this process, in which byte code is written."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def listens(port: int) -> bool:
    """Whether somebody takes connections on this port of this machine."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def refuse_taken_port(port: int) -> None:
    """Raise SystemExit if somebody listens there: the node of an earlier run would be measured for the new one."""
    if listens(port):
        raise SystemExit(
            f"error: something listens on 127.0.0.1:{port} already\n"
            "  next: stop it (a run that was killed leaves its nodes: pgrep -fa barnabas-bench)"
        )


def end_when_told() -> None:
    """From now on SIGTERM ends this process as Ctrl-C does: what it has started, and stopped, does not stay."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def cpu_seconds(pid: int) -> float:
    """User and system CPU seconds of a process and its threads so far."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_mb(pid: int) -> float:
    """Resident memory in MB (10^6 bytes)."""
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def load() -> float:
    """Load average of the last minute."""
    return os.getloadavg()[0]


def machine() -> str:
    """One line that says what the figures were measured on, and which interpreter runs Barnabas."""
    model = "unknown processor"
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    python, compiler = platform.python_version(), platform.python_compiler().strip()
    return f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB, Python {python} ({compiler})"
