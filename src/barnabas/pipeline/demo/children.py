"""Processes that never outlive the one who started them.

Every child leads a session of its own: a Ctrl-C in the terminal reaches us and not them, and at the end all
that belongs to the session goes, also the grandchildren that made process groups of their own (Spark's
Java and its Python workers do).
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence

__all__ = ["Child", "end_all"]

_living: list[Child] = []
POLITE_SECONDS = 5.0


class Child:
    """A started process with its session; its output goes to a log file."""

    def __init__(
        self, name: str, command: Sequence[str], log: str, *, talks: bool = False, cwd: str | None = None
    ) -> None:
        self.name = name
        self.log = log
        with open(log, "ab") as output, _uninterrupted():
            self.process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,  # (it ends with this process: a node or a query stops then)
                stdout=subprocess.PIPE if talks else output,
                stderr=output,
                start_new_session=True,
                cwd=cwd,
            )
            _living.append(self)

    def __repr__(self) -> str:
        return f"<Child {self.name} pid={self.pid} code={self.process.poll()}>"

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """SIGKILL to everything in the session, at once; returns when the process is gone."""
        _signal_session(self.pid, signal.SIGKILL)
        self.process.wait()
        if self in _living:
            _living.remove(self)

    def end(self, patience: float = POLITE_SECONDS) -> int:
        """Ask the process to end, wait, then kill what is left of its session.  Returns its exit code."""
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(patience)
        self.kill()
        return self.process.returncode

    def tail(self, lines: int = 12) -> str:
        """The last lines of the log, for an error message."""
        try:
            with open(self.log, encoding="utf-8", errors="replace") as file:
                return "".join(file.readlines()[-lines:]).rstrip()
        except OSError:
            return ""


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Between a child's birth and its entry in the list no signal may tear us away: it comes right after."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, lambda number, _: came.append(number)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for missed in came:
        signal.raise_signal(missed)


def end_all(patience: float = 2.0) -> None:
    """End every child that was started and is not ended, politely first, all of them together."""
    for child in _living:
        if child.running:
            with contextlib.suppress(ProcessLookupError):
                child.process.terminate()
    deadline = time.monotonic() + patience
    for child in list(_living):
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.process.wait(max(0.0, deadline - time.monotonic()))
        child.kill()


atexit.register(end_all)


def _signal_session(session: int, number: signal.Signals) -> None:
    """Signal all processes of a session; again until none is left that could have started another."""
    for _ in range(20):
        members = session_members(session)
        if not members:
            return
        for pid in members:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        time.sleep(0.01)


def session_members(session: int) -> list[int]:
    """Process ids in a session that are no zombies, from /proc; elsewhere the leader's group alone."""
    try:
        entries = os.listdir("/proc")
    except OSError:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(session, signal.SIGKILL)
        return []
    members: list[int] = []
    for entry in entries:
        if not entry.isdecimal():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="latin-1") as file:
                state, _parent, _group, its_session = file.read().rpartition(")")[2].split()[:4]
        except (OSError, ValueError):
            continue
        if int(its_session) == session and state not in "ZX":
            members.append(int(entry))
    return members
