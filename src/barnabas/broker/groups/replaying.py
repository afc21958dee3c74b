"""The records of __consumer_offsets as groups and positions: known while their partition is here."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.broker.groups.consumer.groups import ConsumerGroups
from barnabas.broker.groups.consumer.records import ConsumerKey
from barnabas.broker.groups.group import ClassicGroup
from barnabas.broker.groups.loading import Loading
from barnabas.broker.groups.membership import Membership
from barnabas.broker.groups.offsets import GroupOffsets
from barnabas.broker.groups.records import read_group, read_offset
from barnabas.errors import ErrorCode
from barnabas.model import Now, ProducerId
from barnabas.wire.coordinator import read_key
from barnabas.wire.records import Record
from barnabas.wire.schemas.group_records import GroupMetadataKey, OffsetCommitKey

__all__ = ["Replaying"]


class Replaying:
    """The reader of these records; `place` says to which partition a group belongs.

    A record of a group that belongs to another partition says nothing.  Such records stay behind where the topic
    got more partitions: what the group has in its new one would be overwritten by what it had in the old one.
    """

    __slots__ = ("_consumers", "_groups", "_membership", "_offsets", "_place")

    def __init__(
        self,
        groups: dict[str, ClassicGroup],
        membership: Membership,
        consumers: ConsumerGroups,
        offsets: GroupOffsets,
        place: Callable[[str], int],
    ) -> None:
        self._groups = groups
        self._membership = membership
        self._consumers = consumers
        self._offsets = offsets
        self._place = place

    def replay(self, loading: Loading, record: Record, now: Now) -> None:
        """Put one record in.  Raises WireError and CorruptRecordError for one that means nothing."""
        key = read_key(record.key or b"")
        if not isinstance(key, ConsumerKey | OffsetCommitKey | GroupMetadataKey):
            return
        group_id = key.group_id if isinstance(key, ConsumerKey) else key.group
        if self._place(group_id) != loading.partition.index:
            return
        if isinstance(key, ConsumerKey):
            self._consumers.replay(key, record.value)
            return
        if isinstance(key, GroupMetadataKey):
            if record.value is None:
                self._groups.pop(key.group, None)
            else:
                self._groups[key.group] = read_group(key.group, record.value, now)
            return
        position = (key.topic, key.partition)
        if record.value is None:
            self._offsets.drop(key.group, [position])
            return
        kept = read_offset(record.value)
        self._offsets.replay(loading.partition.index, loading.producer_id, key.group, position, kept)
        if key.group not in self._groups and key.group not in self._consumers.groups:
            self._groups[key.group] = ClassicGroup(key.group, now)

    def end(self, index: int, producer_id: ProducerId, commit: bool) -> None:
        """Decide what a producer's transaction committed in a partition: its marker was read."""
        self._offsets.end_transaction(index, producer_id, commit=commit)

    def forget(self, index: int, is_here: Callable[[str], bool]) -> None:
        """Forget the groups that are not here, also where the topic is gone or was made anew."""
        consumers, committed = self._consumers, self._offsets.committed
        for group_id in [found for found in self._groups if not is_here(found)]:
            self._membership.rebalance.forget(self._groups.pop(group_id), ErrorCode.NOT_COORDINATOR)
        for group_id in [found for found in consumers.groups if not is_here(found)]:
            consumers.unload(group_id)
        for group_id in [found for found in committed if not is_here(found)]:
            del committed[group_id]
        self._offsets.pending.unload(index)
