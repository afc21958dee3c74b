"""What goes to a person's terminal: control characters of others are spelled out.

A group id, a client id, a user's name or a record may hold what moves the cursor, hides text, names the window or
turns a line around.  `PlainStream` stands before standard output and standard error while a command runs.
"""

from __future__ import annotations

import re
import sys
from typing import Any, TextIO

__all__ = ["PlainStream", "plain", "plain_bytes", "terminal"]

_HIDDEN = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters but for the tab and the end of a line, and those that turn a line around."""


def plain(text: str) -> str:
    r"""`plain("\x1b[2J")` -> "\\u001b[2J", which is the same character where it stands in JSON."""
    return _HIDDEN.sub(_spelled, text)


def plain_bytes(content: bytes) -> bytes:
    """The same for bytes; what is no UTF-8 is spelled out, too."""
    return plain(content.decode("utf-8", "backslashreplace")).encode()


def _spelled(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


class PlainStream:
    """A stream of text before another one; `terminal` is that one, for what draws by itself."""

    def __init__(self, stream: TextIO) -> None:
        self.terminal = stream

    def write(self, text: str) -> int:
        self.terminal.write(plain(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.terminal, name)

    def __repr__(self) -> str:
        return f"<PlainStream {self.terminal!r}>"


def terminal() -> TextIO:
    """Standard output itself, for bars and tables that are drawn; texts in them have to be `plain`."""
    stream: TextIO = getattr(sys.stdout, "terminal", sys.stdout)
    return stream
