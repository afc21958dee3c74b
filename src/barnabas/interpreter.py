"""Command lines of child processes that run a module of ours in this Python.

`python -m` puts the current folder in front of Python's own modules: a `types.py` of the user's would be imported
for Python's, and the child would not start.  `-P` leaves the folder out.
"""

from __future__ import annotations

import sys

__all__ = ["SAFE_PATH", "python_words"]

SAFE_PATH = "PYTHONSAFEPATH"
"""The environment variable that says the same as `-P`, for a Python whose command line is another's."""


def python_words(module: str, *words: str) -> list[str]:
    """Return the words that run `module` with `words` as its arguments: `python_words("barnabas", "start")`."""
    return [sys.executable, "-P", "-m", module, *words]
