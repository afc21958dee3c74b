"""The findings of the checks."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

__all__ = ["Finding", "Findings"]

State: TypeAlias = Literal["ok", "warning", "failed"]


class Finding(NamedTuple):
    """A row: what was looked at, how it is, and where that is no good what helps."""

    check: str
    state: State
    said: str
    next: str = ""


class Findings:
    """The rows in the order of the checks."""

    def __init__(self) -> None:
        self.rows: list[Finding] = []

    def ok(self, check: str, said: str) -> None:
        """Say that it is as it should be."""
        self.rows.append(Finding(check, "ok", said))

    def warn(self, check: str, said: str, next_step: str) -> None:
        """Say that it works, and that somebody should look."""
        self.rows.append(Finding(check, "warning", said, next_step))

    def fail(self, check: str, said: str, next_step: str) -> None:
        """Say that it is wrong."""
        self.rows.append(Finding(check, "failed", said, next_step))

    @property
    def failed(self) -> bool:
        """Return whether anything is wrong."""
        return any(row.state == "failed" for row in self.rows)

    def __repr__(self) -> str:
        return f"<Findings {len(self.rows)}>"
