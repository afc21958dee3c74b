"""What groups forget: positions that are too old, those of topics that are gone, and groups that are deleted.

Every tombstone is written first; memory forgets when it is committed.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.broker.groups.consumer import records as consumer_records
from barnabas.broker.groups.consumer.groups import ConsumerGroups
from barnabas.broker.groups.group import ClassicGroup, GroupState
from barnabas.broker.groups.offsets import CommitWaiting, GroupOffsets
from barnabas.broker.groups.rebalance import GroupJournal
from barnabas.broker.groups.records import group_tombstone
from barnabas.errors import ErrorCode
from barnabas.model import Now, TopicId
from barnabas.wire.records import Record
from barnabas.wire.schemas.groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

__all__ = ["Forgetting"]


class Forgetting:
    """Forgets groups and positions.  `refusal` says why this node does not answer for a group."""

    def __init__(
        self,
        groups: dict[str, ClassicGroup],
        consumers: ConsumerGroups,
        offsets: GroupOffsets,
        journal: GroupJournal,
        refusal: Callable[[str], ErrorCode | None],
    ) -> None:
        self.groups = groups
        self.consumers = consumers
        self.offsets = offsets
        self.journal = journal
        self.refusal = refusal

    # -- by age and with their topic -------------------------------------------------------------------

    def forget_old(self, group_id: str, now: Now) -> None:
        """Forget what is too old in a group, and the group when it is empty."""
        if self.refusal(group_id) is not None:
            return
        if positions := self.offsets.expired(group_id, now):
            self._forget_positions(group_id, positions, now)
        elif self._unused(group_id) and group_id not in self.offsets.committed:
            classic = self.groups.get(group_id)
            if classic is None or classic.generation:
                self._forget_positions(group_id, [], now)
            else:  # it was never written
                del self.groups[group_id]

    def topic_deleted(self, name: str, topic_id: TopicId, now: Now) -> None:
        """A topic is gone: so are the positions in it."""
        for group_id, positions in self.offsets.of_topic(name, topic_id).items():
            if self.refusal(group_id) is None:
                self._forget_positions(group_id, positions, now)

    def _unused(self, group_id: str, *, deleted: bool = False) -> bool:
        """Whether a group has no member, and none is joining.  It may have positions.

        One that is deleted is so for those, too, that were just given an id.
        """
        if (consumer := self.consumers.groups.get(group_id)) is not None:
            return not consumer.members and not self.offsets.in_flight(group_id)
        group = self.groups.get(group_id)
        return (
            group is not None
            and group.state is GroupState.EMPTY
            and (deleted or not group.pending)
            and not self.offsets.in_flight(group_id)
        )

    def _forget_positions(self, group_id: str, positions: list[tuple[str, int]], now: Now) -> None:
        records = self.offsets.tombstones(group_id, positions, now)
        everything = len(positions) == len(self.offsets.committed.get(group_id, {}))
        ends = everything and self._unused(group_id)
        if ends:
            records += self._tombstones(group_id, now)

        def written(error: ErrorCode) -> None:
            if error:
                return
            self.offsets.drop(group_id, positions)
            if ends and self._unused(group_id) and group_id not in self.offsets.committed:
                self._drop(group_id)

        self.journal.write(group_id, records, now, written)

    def _tombstones(self, group_id: str, now: Now) -> list[Record]:
        """What removes a group, without its positions."""
        if (consumer := self.consumers.groups.get(group_id)) is None:
            return [group_tombstone(group_id, now.wall_ms)]
        changes = consumer_records.forgotten(consumer)
        return [consumer_records.to_record(change, now.wall_ms) for change in changes]

    def _drop(self, group_id: str) -> None:
        """Its tombstones are committed."""
        self.consumers.unload(group_id)
        if (group := self.groups.pop(group_id, None)) is not None:
            group.cancel_timers()

    # -- at an administrator's request -----------------------------------------------------------------

    def delete(self, request: DeleteGroupsRequest, now: Now) -> CommitWaiting:
        """DeleteGroups: only groups that are empty, with their positions."""
        results = {name: self._deletable(name) for name in request.groups_names}
        waiting = CommitWaiting(self.offsets.membership.parked)
        open_writes = [1]

        def one_done() -> None:
            open_writes[0] -= 1
            if open_writes[0] == 0:
                waiting.complete(
                    DeleteGroupsResponse(
                        results=[
                            DeletableGroupResult(group_id=name, error_code=e) for name, e in results.items()
                        ]
                    )
                )

        for name in [name for name, error in results.items() if not error]:
            open_writes[0] += 1
            self._delete_group(name, results, one_done, now)
        one_done()
        return waiting

    def _deletable(self, group_id: str) -> ErrorCode:
        if error := self.refusal(group_id):
            return error
        if (consumer := self.consumers.groups.get(group_id)) is not None:
            return ErrorCode.NON_EMPTY_GROUP if consumer.members else ErrorCode.NONE
        group = self.groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.NONE if group.state is GroupState.EMPTY else ErrorCode.NON_EMPTY_GROUP

    def _delete_group(
        self, name: str, results: dict[str, ErrorCode], one_done: Callable[[], None], now: Now
    ) -> None:
        positions = list(self.offsets.committed.get(name, {}).keys() | self.offsets.in_flight(name))
        records = [*self.offsets.tombstones(name, positions, now), *self._tombstones(name, now)]

        def written(error: ErrorCode) -> None:
            results[name] = error
            if not error:
                self.offsets.drop(name, positions)
                if self._unused(name, deleted=True):  # else a member came meanwhile: its group starts again
                    self._drop(name)
            one_done()

        self.journal.write(name, records, now, written)

    def __repr__(self) -> str:
        return f"<Forgetting of {len(self.groups)} groups>"
