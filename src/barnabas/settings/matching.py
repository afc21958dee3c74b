"""Which clients a telemetry subscription is for: the setting `match`, read and compiled (KIP-714).

Patterns are those of RE2, which never take more than linear time: clients choose the names that are matched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from barnabas.errors import ConfigError

__all__ = ["ATTRIBUTES", "MOST_PATTERN", "Matcher", "compiled_match", "re2_options"]

ATTRIBUTES = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
MOST_PATTERN = 4096
"""Characters of a pattern.  (Apache Kafka has no bound but its request's.)"""
MOST_MEMORY = 1 << 20
"""Bytes that RE2 may take for one pattern."""


class Matcher:
    """`matcher.matches({"client_id": "x", ...})`: whether every pattern matches its attribute as a whole."""

    __slots__ = ("_patterns",)

    def __init__(self, patterns: Mapping[str, Any]) -> None:
        self._patterns = dict(patterns)

    def matches(self, client: Mapping[str, str]) -> bool:
        return all(pattern.fullmatch(client[name]) for name, pattern in self._patterns.items())

    def __repr__(self) -> str:
        return f"<Matcher of {', '.join(self._patterns) or 'everybody'}>"


def re2_options() -> Any:
    """How every pattern of a stranger is compiled: in bounded memory, and without a line in the log."""
    import re2  # rarely needed

    options = re2.Options()
    options.log_errors = False
    options.max_mem = MOST_MEMORY
    options.never_capture = True  # a pattern of 1,500 groups takes 30 ms for a name otherwise
    return options


def compiled_match(pairs: Sequence[str]) -> Matcher:
    """The pairs `attribute=pattern` (the last of an attribute counts).  Raises ConfigError."""
    if not pairs:
        return Matcher({})
    import re2  # rarely needed

    options = re2_options()
    patterns = {}
    for pair in pairs:
        name, _, pattern = (part.strip() for part in pair.partition("="))
        if name not in ATTRIBUTES or not pattern or "=" in pattern or len(pattern) > MOST_PATTERN:
            raise ConfigError(
                f"match: {pair[:80]!r} is no pair of an attribute and a pattern",
                next_step=f"write attribute=pattern with one of {', '.join(ATTRIBUTES)}",
            )
        try:
            patterns[name] = re2.compile(pattern, options)
        except (re2.error, UnicodeError) as error:
            raise ConfigError(f"match: {pattern[:80]!r} is no pattern of RE2") from error
    return Matcher(patterns)
