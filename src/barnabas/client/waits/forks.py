"""Clients and forks: a child process shares the sockets of its parent, and none of its threads.

Two processes that read the answers of one connection take them from each other.  So a client that was made before
a fork serves the parent alone, and says so in the child.
"""

from __future__ import annotations

import os

from barnabas.errors import BarnabasError

__all__ = ["check_process", "forked_since", "forks"]

_forks = [0]
os.register_at_fork(after_in_child=lambda: _forks.__setitem__(0, _forks[0] + 1))


def forks() -> int:
    """`made = forks()`: a number that is another one in a child process."""
    return _forks[0]


def forked_since(made: int) -> bool:
    """`forked_since(made)`: whether this process is a child of the one in which `forks()` gave that number."""
    return made != _forks[0]


def check_process(made: int) -> None:
    """Raise BarnabasError in a child of the process in which `forks()` gave that number."""
    if made != _forks[0]:
        raise BarnabasError(
            "this client was made before a fork: it serves the parent process alone",
            next_step="make the Producer, Consumer or Admin in the child process, after the fork",
        )
