"""A cluster that is a dictionary, for planning without one."""

from __future__ import annotations

from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import Uuid
from barnabas.pipeline.options import EARLIEST, LATEST


class FakeCluster:
    """`FakeCluster({"t": [(first, end), ...]})`: each topic's partitions with their first and end offsets."""

    def __init__(
        self, topics: dict[str, list[tuple[int, int]]], times: dict[tuple[str, int, int], int] | None = None
    ) -> None:
        self.topics = topics
        self.times = times or {}
        self.ids = {name: Uuid(name.encode().ljust(16, b"-")[:16]) for name in topics}

    def recreate(self, name: str, partitions: list[tuple[int, int]]) -> None:
        self.topics[name] = partitions
        self.ids[name] = Uuid(bytes(reversed(self.ids[name])))

    def names(self) -> list[str]:
        return list(self.topics)

    def topic(self, name: str) -> tuple[Uuid, list[int]]:
        if name not in self.topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
        return self.ids[name], list(range(len(self.topics[name])))

    def offsets(self, topic: str, when: int, partitions: list[int]) -> dict[int, int]:
        self.topic(topic)
        logs = self.topics[topic]
        if when == EARLIEST:
            return {number: logs[number][0] for number in partitions}
        if when == LATEST:
            return {number: logs[number][1] for number in partitions}
        return {number: self.times[topic, number, when] for number in partitions}
