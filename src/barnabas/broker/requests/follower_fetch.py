"""The fetches of one follower's session, one after the other, without a request and an answer made of objects.

It is `fetch` seen twice, not a second one: the same reader looks at the same positions.  Only an answer in which
every partition is well is left as plain rows (`PlainAnswer`), which become bytes at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.ports import RequestContext
from barnabas.broker.requests.fetch import FetchWaiting, serve
from barnabas.broker.requests.fetch_reader import FetchReader, Found, rights_of
from barnabas.model import Now
from barnabas.wire.replica_fetch import AnswerRow, FetchedRow, PlainAnswer
from barnabas.wire.schemas.fetch import FetchRequest, FetchResponse

if TYPE_CHECKING:
    from barnabas.broker.replicas.broker import Broker
    from barnabas.broker.sessions import FetchPosition

__all__ = ["FollowerFetches"]


class _PlainReader(FetchReader):
    """Answers in plain rows where it can."""

    __slots__ = ()

    def respond(self, found: list[Found], now: Now) -> FetchResponse | PlainAnswer:
        """See FetchReader."""
        plan = self.plan
        session = plan.session
        if session.epoch != plan.epoch or self.broker.sessions.get(session.id) is not session:
            return super().respond(found, now)
        for one in found:
            if one.error or one.diverging is not None:
                return super().respond(found, now)
        self.count(found, now)
        topics: dict[bytes, list[AnswerRow]] = {}
        for one in found:
            if self.news(one):
                position = one.position
                row = (position.index, one.high_watermark, one.stable, one.log_start, one.records)
                topics.setdefault(position.topic, []).append(row)  # type: ignore[arg-type]  # a topic id
        session.move_to_end([one.position for one in found if len(one.records)])
        return PlainAnswer(session.id, topics)


class FollowerFetches:
    """Made from one fetch of a session that the usual way has served; `fetch` serves those that look like it."""

    __slots__ = ("_asker", "_broker", "_context", "_request", "_session", "_version")

    def __init__(self, broker: Broker, context: RequestContext, request: FetchRequest, version: int) -> None:
        """`request` belongs to a session of the cache, and its follower keeps to what it says but positions.

        Raises KeyError when there is no such session.
        """
        session = broker.sessions.get(request.session_id)
        if session is None or not session.follower:
            raise KeyError(request.session_id)
        self._broker = broker
        self._context = context
        self._request = request
        self._session = session
        self._asker = session.asker
        self._version = version

    def fetch(
        self, epoch: int, rows: list[FetchedRow], now: Now
    ) -> FetchResponse | FetchWaiting | PlainAnswer | None:
        """Serve the next fetch of the session, with these positions changed.  None: nothing was done, for it is
        not the next one, or names what the session does not have."""
        broker, session = self._broker, self._session
        if self._asker.rights != rights_of(broker, self._context):
            return None
        if session.epoch != epoch or broker.sessions.get(session.id) is not session:
            return None
        known = session.positions
        asked: list[FetchPosition] = []
        for row in rows:
            position = known.get((row.topic_id, row.partition))  # type: ignore[arg-type]  # bytes are equal to it
            if position is None:
                return None
            asked.append(position)
        for row, position in zip(rows, asked, strict=True):
            _, _, leader_epoch, offset, last_epoch, log_start, max_bytes = row
            position.ask(leader_epoch, offset, last_epoch, log_start, max_bytes)
            session.note(position)
        plan = broker.sessions.go_on(session, now)
        reader = _PlainReader(broker, self._context, self._request, self._version, plan)
        return serve(reader, self._request, self._asker, now)

    def __repr__(self) -> str:
        return f"<FollowerFetches {self._session!r}>"
