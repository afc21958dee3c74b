"""Where a record goes: the partition that was asked for, the key's, or the one whose batch is being filled."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.client.metadata import METADATA_AGE, NEWS_DELAY, TopicInfo
from barnabas.client.producing.batching import Accumulator
from barnabas.client.producing.partitioner import StickyPartition, partition_of_key
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import TopicPartition

__all__ = ["Partitions", "Placement"]


class Partitions:
    """The number of partitions of each topic, and those that have a leader; asked for anew after `max_age` s."""

    def __init__(self, max_age: float = METADATA_AGE) -> None:
        self._max_age = max_age
        self._known: dict[str, tuple[float, tuple[int, list[int]]]] = {}

    def __repr__(self) -> str:
        return f"<Partitions of {sorted(self._known)}>"

    def __contains__(self, topic: str) -> bool:
        return topic in self._known

    def of(self, topic: str, now: float, partition: int | None) -> tuple[int, list[int]] | None:
        """(count, those with a leader, or all if none has one); None when it must be asked.  Monotonic s.

        A `partition` that is not known may have been added since.
        """
        known = self._known.get(topic)
        if known is None:
            return None
        is_news = partition is not None and partition >= known[1][0]
        return known[1] if now - known[0] < (NEWS_DELAY if is_news else self._max_age) else None

    def take(self, info: TopicInfo, now: float) -> tuple[int, list[int]]:
        """Keep what a broker says of a topic; as `of`."""
        count = len(info.partitions)
        usable = [p.partition for p in info.partitions.values() if p.leader >= 0] or list(range(count))
        self._known[info.name] = (now, (count, usable))
        return count, usable


class Placement:
    """`Placement(accumulator, random.randrange).target("t", None, b"key", 6, [0, 1, 2, 3, 4, 5], 100)`."""

    def __init__(self, accumulator: Accumulator, choose: Callable[[int], int]) -> None:
        self._accumulator = accumulator
        self._sticky = StickyPartition(choose)

    def __repr__(self) -> str:
        return f"<Placement {self._sticky!r}>"

    def target(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        count: int,
        usable: list[int],
        size: int,
    ) -> TopicPartition:
        """The partition of a record of `size` bytes.

        The topic has `count` partitions; those in `usable` have a leader.  Raises KafkaError for a partition that
        is not there.
        """
        if partition is None and key is not None:
            return TopicPartition(topic, partition_of_key(key, count))
        if partition is None:
            target = TopicPartition(topic, self._sticky.current(topic, usable))
            if self._accumulator.is_full(target, size):
                self._sticky.batch_full(topic, usable)
                target = TopicPartition(topic, self._sticky.current(topic, usable))
            return target
        if not 0 <= partition < count:
            more = f"; more: barnabas topics grow {topic} --partitions {partition + 1}"
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {topic} has partitions 0 to {count - 1}, no {partition}",
                next_step="name one of these, or none to have it chosen" + (more if partition >= 0 else ""),
            )
        return TopicPartition(topic, partition)
