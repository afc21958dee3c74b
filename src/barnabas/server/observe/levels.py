"""The levels of this process's loggers, changed while it runs: what Kafka calls broker loggers (KIP-412).

A logger is named as its events begin: `connection` writes `connection.refused`.  `root` is where those that have
no level of their own take theirs.  Levels go by Kafka's names; a changed one counts until the process ends.
"""

from __future__ import annotations

import logging

from barnabas.server.observe import events

__all__ = ["LEVELS", "ROOT", "exists", "levels", "set_level", "unset_level"]

ROOT = "root"
LEVELS = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
"""From all that is written to nearly nothing.  No event has TRACE: it writes what DEBUG writes."""

_CHANGED = events.register(
    "node.log-level", logging.WARNING, "the level of a logger was changed until this process ends"
)


def levels() -> dict[str, str]:
    """The level in force of each logger, by its name."""
    return {ROOT: _name(_logger(ROOT)), **{room: _name(_logger(room)) for room in sorted(_rooms())}}


def exists(logger: str) -> bool:
    """Whether there is a logger of that name."""
    return logger == ROOT or logger in _rooms()


def set_level(logger: str, level: str) -> None:
    """Give a logger a level of its own.  Raises KeyError for a level that is none of LEVELS."""
    _logger(logger).setLevel(LEVELS[level])
    events.emit(_CHANGED, logger=logger, level=level)


def unset_level(logger: str) -> None:
    """Let a logger have the level of the root again."""
    assert logger != ROOT
    _logger(logger).setLevel(logging.NOTSET)
    events.emit(_CHANGED, logger=logger, level=_name(_logger(logger)))


def _rooms() -> set[str]:
    return {name.partition(".")[0] for name in events.CATALOGUE}


def _logger(name: str) -> logging.Logger:
    return logging.getLogger("barnabas" if name == ROOT else f"barnabas.{name}")


def _name(logger: logging.Logger) -> str:
    """Kafka's name of the level; of one between two of them, that of the quieter."""
    number = logger.getEffectiveLevel()
    return next((name for name, level in LEVELS.items() if number <= level), "FATAL")
