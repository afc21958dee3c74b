"""Subscriptions by pattern: when the topics that a pattern matches are looked up anew, and how.

Patterns are those of RE2, which never take more than linear time (Apache Kafka's are, too).  A search does so much
work per step, so that nothing waits for a cluster of many topics, or for a pattern that is hard to match.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from barnabas.broker.groups.consumer.group import ConsumerGroup, ResolvedPattern
from barnabas.broker.groups.consumer.member import ConsumerMember
from barnabas.errors import ErrorCode, KafkaError
from barnabas.settings.matching import MOST_PATTERN, re2_options

__all__ = [
    "MOST_PATTERN",
    "PatternSearch",
    "check_pattern",
    "compiled_pattern",
    "patterns_with",
    "search_wanted",
    "work_to_match",
]

WORK_PER_STEP = 1_000_000
"""What a step does (`work_to_match`): a few milliseconds for the worst patterns, far less for others."""
LEAST_INTERVAL_MS = 10_000
"""A group's patterns are not looked up more often."""
_WORDS = re.compile(r"(?:[^\\.+*?()\[\]{}^$]|\\[^\w\s])*", re.ASCII)
"""A pattern that is nothing but words with `|` between them."""
_ANY_BYTE = re.compile(r"(?<!\\)(\\\\)*\\C")


def check_pattern(regex: str) -> None:
    """Raises KafkaError INVALID_REGULAR_EXPRESSION for what is no pattern."""
    compiled_pattern(regex)


def compiled_pattern(regex: str) -> Any:
    """What RE2 makes of it.  Raises KafkaError INVALID_REGULAR_EXPRESSION."""
    import re2  # rarely needed

    if len(regex) > MOST_PATTERN:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION, f"a pattern has at most {MOST_PATTERN} characters"
        )
    if _ANY_BYTE.search(regex):  # (a byte is no character of a name)
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, "\\C is not supported")
    try:
        return re2.compile(regex, re2_options())
    except (re2.error, UnicodeError) as error:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION, f"{regex!r} is no pattern of RE2: {_reason(error)}"
        ) from error


def work_to_match(compiled: Any, names: Iterable[str]) -> int:
    """At most so many instructions of RE2 compare these names with a pattern.

    Few patterns need nearly as many: those whose states do not fit into the memory that they are given.  Words are
    compared character by character, each of them once.
    """
    size = int(compiled.programsize)
    if _WORDS.fullmatch(compiled.pattern):
        words = compiled.pattern.count("|") + 1
        return sum(min(size, words * (len(name) + 1)) for name in names)
    return size * sum(len(name) + 1 for name in names)


def _reason(error: Exception) -> str:
    said = error.args[0] if error.args else "not understood"
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)


def patterns_with(group: ConsumerGroup, member: ConsumerMember) -> set[str]:
    """The patterns of a group in which one member is as given."""
    others = (other.regex for other in group.members.values() if other.id != member.id)
    return {regex for regex in (*others, member.regex) if regex}


def search_wanted(
    group: ConsumerGroup, member: ConsumerMember, wall_ms: int, topics_version: int, refresh_ms: int
) -> bool:
    """Whether the patterns of a group are to be looked up anew, after a heartbeat of this member: one is not
    resolved, topics were created since (`topics_version` is the metadata's offset of the last), or `refresh_ms`
    are over.  It is asked at every heartbeat, so it looks at no other member.

    Patterns that were resolved in the future were so by a clock that was set back since."""
    last = next(iter(group.patterns.values()), None)
    if last is None:
        return bool(member.regex or group.pattern_users)
    if last.resolved_ms <= wall_ms <= last.resolved_ms + LEAST_INTERVAL_MS:
        return False
    return (
        (bool(member.regex) and member.regex not in group.patterns)
        or not group.pattern_users.keys() <= group.patterns.keys()
        or last.version < topics_version
        or not last.resolved_ms <= wall_ms <= last.resolved_ms + refresh_ms
    )


class PatternSearch:
    """The topics that some patterns match, found step by step."""

    __slots__ = ("_left", "_visible", "found", "started_ms", "version")

    def __init__(
        self,
        patterns: Iterable[str],
        names: Iterable[str],
        version: int,
        wall_ms: int,
        visible: Callable[[str], bool] = lambda name: True,
    ) -> None:
        """`names` are all topics of the metadata at offset `version`; what is not `visible` does not count."""
        self._visible = visible
        self.found: dict[str, set[str]] = {regex: set() for regex in patterns}
        compiled: list[tuple[str, Any]] = []
        for regex in self.found:
            try:
                compiled.append((regex, compiled_pattern(regex)))
            except KafkaError:  # another release took it
                continue
        all_names = tuple(names)
        self._left: Iterator[tuple[str, Any, str]] = (
            (regex, pattern, name) for regex, pattern in compiled for name in all_names
        )
        self.version = version
        self.started_ms = wall_ms

    def step(self) -> bool:
        """Compare some names; false when none is left."""
        work = 0
        for regex, pattern, name in self._left:
            if pattern.fullmatch(name) and self._visible(name):
                self.found[regex].add(name)
            if (work := work + work_to_match(pattern, (name,))) >= WORK_PER_STEP:
                break
        return work > 0

    def resolved(self) -> dict[str, ResolvedPattern]:
        """What was found, by pattern."""
        return {
            regex: ResolvedPattern(frozenset(names), self.version, self.started_ms)
            for regex, names in self.found.items()
        }

    def __repr__(self) -> str:
        return f"<PatternSearch for {len(self.found)}>"
