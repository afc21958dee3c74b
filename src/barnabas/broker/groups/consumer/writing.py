"""How consumer groups are written: records first, then their replay, and answers when what they say is safe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from barnabas.broker.groups.consumer import records
from barnabas.broker.groups.consumer.group import ConsumerGroup
from barnabas.broker.groups.consumer.records import Change
from barnabas.broker.groups.membership import Membership
from barnabas.broker.groups.offsets import CommitWaiting
from barnabas.errors import ErrorCode
from barnabas.model import Now
from barnabas.wire.codec.message import Message
from barnabas.wire.records import Record

__all__ = ["GroupWriting"]

_Response = TypeVar("_Response", bound=Message)


class _Write:
    """Records of a group on their way, and who waits for them.

    With an `error` nobody waits any more; they are in the log, and may yet be committed.
    """

    __slots__ = ("error", "waiters")

    def __init__(self) -> None:
        self.error: ErrorCode | None = None
        self.waiters: list[Callable[[ErrorCode], None]] = []

    def finish(self, error: ErrorCode) -> None:
        """They are committed, or nobody knows whether they will be."""
        self.error = error
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            waiter(error)

    def __repr__(self) -> str:
        return f"<_Write {'open' if self.error is None else self.error.name}>"


class GroupWriting:
    """Writes the groups of `groups`, and remembers which write of each is not committed yet."""

    def __init__(self, groups: dict[str, ConsumerGroup], membership: Membership) -> None:
        self.groups = groups
        self.membership = membership
        self._last: dict[str, _Write] = {}

    def append(
        self, group: ConsumerGroup, changes: Sequence[Change], now: Now, before: Sequence[Record] = ()
    ) -> ErrorCode:
        """Write changes of a group and replay them.  With an error nothing was written, and nothing changed.

        `before` are records that are written first and are in the group already.
        """
        if not changes:
            return ErrorCode.NONE
        written = [records.to_record(change, now.wall_ms) for change in changes]
        if error := self.write(group.id, [*before, *written], now):
            return error
        self.membership.groups.pop(group.id, None)
        self.groups[group.id] = group
        for change, record in zip(changes, written, strict=True):
            records.replay(group, change.key, record.value)
        return ErrorCode.NONE

    def write(self, group_id: str, written: list[Record], now: Now) -> ErrorCode:
        """Write records of a group; the error is one that was there at once."""
        write = _Write()
        self.membership.journal.write(group_id, written, now, write.finish)
        if write.error is None:
            self._last[group_id] = write
            write.waiters.append(lambda error: self._settled(group_id, write, error))
        return write.error or ErrorCode.NONE

    def _settled(self, group_id: str, write: _Write, error: ErrorCode) -> None:
        """What took too long stays, so that nothing that rests on it is said before it is committed."""
        if error is ErrorCode.NOT_COORDINATOR:
            self.membership.journal.load_anew(group_id)
        elif not error and self._last.get(group_id) is write:
            del self._last[group_id]

    def loaded(self, group_id: str) -> None:
        """A group was read from a log whose end may not be committed yet."""
        write = self._last[group_id] = _Write()
        write.error = ErrorCode.COORDINATOR_NOT_AVAILABLE

    def when_safe(
        self, group_id: str, answer: _Response, refused: Callable[[ErrorCode], _Response], now: Now
    ) -> _Response | CommitWaiting:
        """The answer now, or when the last write of the group is committed; `refused` is one when it failed."""
        write = self._last.get(group_id)
        if write is None:
            return answer
        waiting = CommitWaiting(self.membership.parked)
        write.waiters.append(lambda error: waiting.complete(refused(error) if error else answer))
        if write.error is not None:
            write.error = None
            write.waiters.append(lambda error: self._settled(group_id, write, error))
            self.membership.journal.when_safe(group_id, now, write.finish)
        return waiting

    def forget(self, group_id: str) -> None:
        """Another node writes this group from now on."""
        self._last.pop(group_id, None)

    def __repr__(self) -> str:
        return f"<GroupWriting, {len(self._last)} open>"
