"""What groups have committed, translated to the offsets of a mirror."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from barnabas.client.admin.admin import Admin
from barnabas.client.admin.described import GroupOffset
from barnabas.client.fetching import fetch_range
from barnabas.client.offsets import EARLIEST, LATEST, READ_COMMITTED, list_offsets
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import Offset, TopicPartition
from barnabas.pipeline.sink.offset_map import OffsetRun, from_bytes, translate
from barnabas.wire.records import read_records

__all__ = ["MAP_PREFIX", "GroupTranslation"]

_LARGEST = 64 << 20
MAP_PREFIX = "__barnabas_offsets."
"""Then the id of the cluster that records come from: one map for each, in the cluster that has the copies."""


class GroupTranslation:
    """`GroupTranslation(here, there, MAP, {"t": "t"}, ["billing"]).translate(print)`, as often as one likes.

    A group's offset there is never set back, for it may have gone on there; nor while it has members there.
    """

    def __init__(
        self, source: Admin, target: Admin, map_topic: str, names: Mapping[str, str], groups: Iterable[str]
    ) -> None:
        self._source = source
        self._target = target
        self._map = map_topic
        self._names = names
        self._groups = sorted(set(groups))
        self._runs: dict[TopicPartition, list[OffsetRun]] = {}
        self._position: Offset | None = None
        self._busy: set[str] = set()

    def __repr__(self) -> str:
        return f"<GroupTranslation {', '.join(self._groups)} by {self._map}>"

    def translate(self, say: Callable[[str], None]) -> None:
        """Set what has changed.  `say` takes a line for a group that has members there.  Raises BarnabasError."""
        if not self._groups:
            return
        self._read_on()
        for group in self._groups:
            wanted = self._wanted(group)
            if not wanted:
                continue
            try:
                self._target.set_group_offsets(group, wanted)
                self._busy.discard(group)
            except KafkaError as error:
                if error.code is not ErrorCode.NON_EMPTY_GROUP:
                    raise
                if group not in self._busy:
                    self._busy.add(group)
                    say(f"the group {group} has members at the mirror, so its offsets stay its own")

    def _wanted(self, group: str) -> dict[TopicPartition, Offset]:
        """What the group is to have there and has not."""
        known = {
            TopicPartition(one.topic, one.partition): one.committed for one in _offsets(self._target, group)
        }
        wanted: dict[TopicPartition, Offset] = {}
        for one in _offsets(self._source, group):
            if one.topic not in self._names or one.committed is None:
                continue
            where = TopicPartition(self._names[one.topic], one.partition)
            offset = translate(self._runs.get(where, ()), one.committed)
            before = known.get(where)
            if offset is not None and (before is None or offset > before):
                wanted[where] = offset
        return wanted

    def _read_on(self) -> None:
        """What the map has got since the last time, and is committed."""
        cluster, topic = self._target.cluster, self._map
        if self._position is None:
            self._position = list_offsets(cluster, topic, EARLIEST, [0])[0].offset
        end = list_offsets(cluster, topic, LATEST, [0], isolation=READ_COMMITTED)[0].offset
        for batch in fetch_range(cluster, topic, 0, self._position, end, isolation=READ_COMMITTED):
            for record in read_records(batch.buffer, 0, batch.header, _LARGEST):
                if record.offset >= self._position:
                    where, runs = from_bytes(record.key or b"", record.value or b"")
                    self._runs.setdefault(where, []).extend(runs)
            self._position = batch.header.last_offset + 1
        self._position = max(self._position, end)


def _offsets(admin: Admin, group: str) -> list[GroupOffset]:
    try:
        return admin.group_offsets(group)
    except KafkaError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return []
