"""Asking a person before something is destroyed."""

from __future__ import annotations

import sys

__all__ = ["confirm"]


def confirm(question: str) -> None:
    """Print a question on standard error and go on after `yes`; raise KeyboardInterrupt after anything else."""
    print(f"{question} It cannot be undone [yes/no] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip() != "yes":
        raise KeyboardInterrupt
