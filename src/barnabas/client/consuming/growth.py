"""The partitions of a consumer without a group, and when to look for more of them.  No socket, no clock."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from barnabas.client.metadata import TopicInfo, topic_error
from barnabas.errors import ErrorCode
from barnabas.model import TopicPartition

__all__ = ["Growth"]

LOOK_S = 1.0
"""Between two looks for a topic that is not there yet."""
log = logging.getLogger("barnabas.client")


class Growth:
    """`Growth(("a", "b"), 300.0)`: which partitions of these topics are read, and when to look for others.

    A topic that is not there is waited for.  What comes after the first look is read from its beginning: the
    reader was there first.
    """

    def __init__(self, topics: tuple[str, ...], max_age: float) -> None:
        """`max_age`: seconds between two looks once all topics are there."""
        self.topics = topics
        self.begun = False
        """True if there was a look that went well."""
        self.missing: set[str] = set()
        self._max_age = max_age
        self._known: set[TopicPartition] = set()
        self._due = 0.0

    def __repr__(self) -> str:
        return f"<Growth partitions={len(self._known)} missing={sorted(self.missing)}>"

    def due(self, now: float, asked: Iterable[str] = ()) -> bool:
        """Return whether to look now (monotonic s); at once where the user asks about a topic that was missing."""
        return bool(self.topics) and (now >= self._due or not self.missing.isdisjoint(asked))

    def new(self, there: Mapping[str, TopicInfo]) -> list[TopicPartition]:
        """Return the partitions of these topics that are not read yet."""
        all_there = {TopicPartition(info.name, p) for info in there.values() for p in info.partitions}
        return sorted(all_there - self._known)

    def looked(self, there: Mapping[str, TopicInfo], now: float) -> None:
        """Take a look that went well: all that is there is read now."""
        self._known.update(self.new(there))
        missing = {topic for topic in self.topics if topic not in there}
        for topic in sorted(missing - self.missing):
            log.warning(
                "topic %s is not there: the consumer reads it as soon as it is\n"
                "next: see what there is with `barnabas topics list`",
                topic,
            )
        self.begun, self.missing = True, missing
        self.later(now)

    def later(self, now: float) -> None:
        """Look again after a while."""
        self._due = now + (min(LOOK_S, self._max_age) if self.missing else self._max_age)

    def check(self, topics: Iterable[str]) -> None:
        """Raise KafkaError UNKNOWN_TOPIC_OR_PARTITION if one of these topics is not there."""
        for topic in topics:
            if topic in self.missing:
                raise topic_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic)
