"""Real clients behind the same two questions: a thousand records there and back, and what it says when refused."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

__all__ = ["RECORDS", "VALUES", "Client", "How", "logged"]

RECORDS = 1000
VALUES = [b"%d" % number for number in range(RECORDS)]


class How(NamedTuple):
    """How a client shows who it is, and whom it trusts.

    `mechanism` "" is none.  `secret` is a password or a token of an issuer; `certificate` a PEM file with its key.
    `by_token`: name and password are those of a delegation token.
    """

    ca: str
    mechanism: str = ""
    user: str = ""
    secret: str = ""
    certificate: str = ""
    by_token: bool = False


class Client(Protocol):
    """One of the clients."""

    takes_tokens: bool
    """Whether it logs in with delegation tokens."""

    def there_and_back(self, address: str, topic: str, how: How) -> list[bytes]:
        """Send all of VALUES to partition 0 of a topic; what is read from it then."""
        ...

    def refused(self, address: str, how: How) -> str:
        """All that it says, in its own words, where it is not let in."""
        ...


@contextmanager
def logged(name: str) -> Iterator[list[str]]:
    """What a library logs meanwhile."""
    lines: list[str] = []

    class Keeping(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    handler, logger = Keeping(), logging.getLogger(name)
    logger.addHandler(handler)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
