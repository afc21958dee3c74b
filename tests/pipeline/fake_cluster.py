"""A cluster that is a dictionary, for planning without one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import TopicPartition, Uuid
from barnabas.pipeline.options import EARLIEST, LATEST


class FakeCluster:
    """`FakeCluster({"t": [(first, end), ...]})`: each topic's partitions with their first and end offsets."""

    def __init__(
        self, topics: dict[str, list[tuple[int, int]]], times: dict[tuple[str, int, int], int] | None = None
    ) -> None:
        self.logs = topics
        self.questions: list[str] = []
        """What was asked, in order."""
        self.committed: dict[str, dict[TopicPartition, int]] = {}
        self.refuses_groups = False
        self.times = times or {}
        self.ids = {name: Uuid(name.encode().ljust(16, b"-")[:16]) for name in topics}

    def recreate(self, name: str, partitions: list[tuple[int, int]]) -> None:
        self.logs[name] = partitions
        self.ids[name] = Uuid(bytes(reversed(self.ids[name])))

    def topics(self, names: Sequence[str] | None) -> dict[str, tuple[Uuid, list[int]]]:
        self.questions.append("topics")
        wanted = self.logs if names is None else [name for name in names if name in self.logs]
        return {name: (self.ids[name], list(range(len(self.logs[name])))) for name in wanted}

    def offsets(self, *questions: Mapping[TopicPartition, int]) -> list[dict[TopicPartition, int]]:
        self.questions.append("offsets")
        return [{where: self._offset(where, when) for where, when in asked.items()} for asked in questions]

    def commit(self, group: str, offsets: dict[TopicPartition, int]) -> None:
        self.questions.append("commit")
        if self.refuses_groups:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, "the group has members")
        self.committed[group] = dict(offsets)

    def _offset(self, where: TopicPartition, when: int) -> int:
        if where.topic not in self.logs:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {where.topic}")
        first, end = self.logs[where.topic][where.partition]
        special = {EARLIEST: first, LATEST: end}
        return special[when] if when in special else self.times[where.topic, where.partition, when]
