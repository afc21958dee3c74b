"""What all stories share: a transcript of commands and of what followed each, which runs anew word for word.

A line that begins with `>` is a command, the lines below it are what followed.  Everything else is prose and
stays.  After a change on purpose, run the tests with BARNABAS_REWRITE=1 and read the diff.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

__all__ = ["Transcript", "options", "plain", "stands_and_goes"]


class Transcript:
    """Runs commands: `> add 4 timeout=5` calls `do_add("4", "timeout=5")`, which returns or `say`s lines."""

    def __init__(self) -> None:
        self._said: list[str] = []

    def say(self, line: str) -> None:
        """One more line below the command that runs."""
        self._said.append(f"      {line}")

    def run(self, text: str) -> str:
        """The text as it goes now."""
        out: list[str] = []
        for line in text.splitlines():
            if not line.strip() or line.startswith("#"):
                out.append(line)
            elif line.startswith("> "):
                name, *words = line[2:].split()
                command: Callable[..., None] = getattr(self, f"do_{name.replace('-', '_')}")
                command(*words)
                out += [line, *self.followed()]
        return "\n".join(out) + "\n"

    def followed(self) -> list[str]:
        """What followed the command that ran."""
        said, self._said = self._said, []
        return said


def stands_and_goes(path: Path, transcript: Transcript) -> tuple[str, str]:
    """The story of a file as it stands and as it goes; the file is rewritten where that is asked for."""
    goes = transcript.run(path.read_text())
    if os.environ.get("BARNABAS_REWRITE"):
        path.write_text(goes)
    return path.read_text(), goes


def options(words: tuple[str, ...]) -> dict[str, str]:
    """The words of the form name=value."""
    return dict(word.split("=", 1) for word in words if "=" in word)


def plain(words: tuple[str, ...]) -> list[str]:
    """The words that are not."""
    return [word for word in words if "=" not in word]
