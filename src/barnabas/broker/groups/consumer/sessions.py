"""How long members may be silent, and how long they may keep what they shall give up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from barnabas.broker.groups.rebalance import GroupJournal
from barnabas.broker.groups.timers import Timer
from barnabas.model import Now

__all__ = ["NEVER", "Fence", "Sessions"]

NEVER = float("inf")
RETRY_S = 1.0
"""When the end of a session is tried again after it could not be written."""


class Fence(Protocol):
    """Puts a member out of its group; false when that could not be written.

    With an `epoch`: only a member that is still in that epoch.
    """

    def __call__(self, group_id: str, member_id: str, epoch: int | None, now: Now) -> bool: ...


class _Session:
    """The deadlines of one member, in monotonic seconds."""

    __slots__ = ("expires", "revoke_by", "revoke_epoch", "timer", "waking")

    def __init__(self) -> None:
        self.expires = NEVER
        self.revoke_by = NEVER
        self.revoke_epoch: int | None = None
        self.timer = NEVER
        """When the one timer that counts looks at the deadlines."""
        self.waking: Timer | None = None

    def cancel(self) -> None:
        """Look no more: the member is gone, or another timer counts."""
        if self.waking is not None:
            self.waking.cancel()

    @property
    def next(self) -> float:
        return min(self.expires, self.revoke_by)

    def __repr__(self) -> str:
        return f"<_Session until {self.next}>"


class Sessions:
    """The sessions of all members of the consumer groups of this broker."""

    def __init__(self, wake_at: GroupJournal, fence: Fence) -> None:
        self._clock = wake_at
        self._fence = fence
        self._sessions: dict[str, dict[str, _Session]] = {}

    def alive(self, group_id: str, member_id: str, seconds: float, now: Now) -> None:
        """A member was heard: its session begins anew."""
        session = self._sessions.setdefault(group_id, {}).setdefault(member_id, _Session())
        session.expires = now.mono + seconds
        self._arm(group_id, member_id, session)

    def revoke_within(
        self, group_id: str, member_id: str, epoch: int | None, seconds: float, now: Now
    ) -> None:
        """A member has so long to give up what it shall give up in this epoch.

        Without an epoch: a classic member has so long to join, or to fetch its assignment.
        """
        session = self._sessions.setdefault(group_id, {}).setdefault(member_id, _Session())
        session.revoke_by, session.revoke_epoch = now.mono + seconds, epoch
        self._arm(group_id, member_id, session)

    def is_late_at(self, group_id: str, member_id: str) -> float:
        """When a member's time to revoke or to join is over, in monotonic seconds."""
        session = self._sessions.get(group_id, {}).get(member_id)
        return NEVER if session is None else session.revoke_by

    def revoked(self, group_id: str, member_id: str) -> None:
        """A member has nothing to give up any more."""
        if session := self._sessions.get(group_id, {}).get(member_id):
            session.revoke_by = NEVER

    def forget(self, group_id: str, member_id: str | None = None) -> None:
        """A member is gone, or its whole group."""
        members = self._sessions.get(group_id, {})
        for gone in [member_id] if member_id is not None else list(members):
            if (session := members.pop(gone, None)) is not None:
                session.cancel()
        if not members:
            self._sessions.pop(group_id, None)

    def _arm(self, group_id: str, member_id: str, session: _Session) -> None:
        if session.timer <= session.next:
            return
        when = session.timer = session.next
        session.cancel()
        session.waking = self._clock.at(when, self._at(group_id, member_id, session, when))

    def _at(self, group_id: str, member_id: str, session: _Session, when: float) -> Callable[[Now], None]:
        def wake(now: Now) -> None:
            if session.timer == when:  # else an earlier one was set since
                session.timer = NEVER
                if self._sessions.get(group_id, {}).get(member_id) is session:
                    self._look(group_id, member_id, session, now)

        return wake

    def _look(self, group_id: str, member_id: str, session: _Session, now: Now) -> None:
        written = True
        if session.expires <= now.mono:
            written = self._fence(group_id, member_id, None, now)
            if written:  # it is out now, or was before: a static member came back under another name
                self.forget(group_id, member_id)
        elif session.revoke_by <= now.mono:
            session.revoke_by = NEVER
            written = self._fence(group_id, member_id, session.revoke_epoch, now)
        if not written:
            session.expires = now.mono + RETRY_S
        if self._sessions.get(group_id, {}).get(member_id) is session:
            self._arm(group_id, member_id, session)

    def __repr__(self) -> str:
        return f"<Sessions of {sum(map(len, self._sessions.values()))} members>"
