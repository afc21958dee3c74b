"""Children that run a module of ours in this Python: their command lines, and what nodes need of the system.

`python -m` puts the current folder in front of Python's own modules: a `types.py` of the user's would be imported
for Python's, and the child would not start.  `-P` leaves the folder out.
"""

from __future__ import annotations

import sys
from importlib import import_module

from barnabas.errors import BarnabasError

__all__ = ["POSIX_MODULES", "SAFE_PATH", "check_posix", "needs_posix", "python_words"]

POSIX_MODULES = ("fcntl", "resource")
"""Modules of Python that Windows does not have, and nodes need."""

SAFE_PATH = "PYTHONSAFEPATH"
"""The environment variable that says the same as `-P`, for a Python whose command line is another's."""


def python_words(module: str, *words: str) -> list[str]:
    """Return the words that run `module` with `words` as its arguments: `python_words("barnabas", "start")`."""
    return [sys.executable, "-P", "-m", module, *words]


def check_posix() -> None:
    """Raise BarnabasError where nodes cannot run."""
    for name in POSIX_MODULES:
        try:
            import_module(name)
        except ModuleNotFoundError:
            raise needs_posix() from None


def needs_posix() -> BarnabasError:
    """Return the error for a system where nodes cannot run."""
    return BarnabasError(
        f"nodes run on Linux and macOS, not on this system ({sys.platform})",
        next_step="run this in WSL 2 or a container; clients and commands that talk to a cluster work here, too",
    )
