"""Asking a person before something is destroyed."""

from __future__ import annotations

import sys

from barnabas.cli.exits import Exit

__all__ = ["confirm"]


def confirm(question: str) -> None:
    """Print a question on standard error and go on after `yes` or `y`; after anything else end with 130."""
    print(f"{question} It cannot be undone [yes/no] ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if answer.strip().lower() not in ("yes", "y"):
        print("nothing was changed" if answer else "\nnothing was changed", file=sys.stderr)
        raise SystemExit(Exit.INTERRUPTED)
