"""Fetch: read whole batches, or wait until there are enough.

A fetch is answered at once when it has the bytes it asked for, when one of its partitions has something to
report (an error, a diverging epoch), or when it does not want to wait.  Otherwise it parks: its session watches
its partitions.  It wakes (at the end of a loop step, after the writes) when the readable end of one of them
moved, and reads again (`fetch_reader`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from barnabas.broker.ports import RequestContext
from barnabas.broker.purgatory import Waiting
from barnabas.broker.requests.fetch_reader import FetchReader, Found
from barnabas.broker.sessions import Asker
from barnabas.model import Now
from barnabas.wire.replica_fetch import PlainAnswer
from barnabas.wire.schemas.fetch import FetchRequest, FetchResponse

if TYPE_CHECKING:
    from barnabas.broker.replicas.broker import Broker

__all__ = ["FetchWaiting", "fetch", "serve"]


class FetchWaiting(Waiting):
    """A parked fetch.  Its session watches its partitions: for good, or until it is done."""

    __slots__ = ("first", "min_bytes", "reader")

    def __init__(self, deadline: float, reader: FetchReader, min_bytes: int) -> None:
        super().__init__(deadline)
        self.first: Callable[[], tuple[Any, bool]] | None = None
        """Is asked before the reader when something moved (`consumer_fetch`): the answer if there is one now, and
        whether nothing else is to be looked at."""
        self.reader = reader
        self.min_bytes = min_bytes

    def park(self, now: Now) -> bool:
        """Wait from now on; False when the purgatory is full."""
        if not self.reader.broker.purgatory.add(self):
            return False
        session = self.reader.plan.session
        if not session.id:
            session.watch()
        session.parked, outdated = self, session.parked
        if outdated is not None:
            outdated.wake(now)
        return True

    def wake(self, now: Now) -> None:
        """Something that it reads moved: read again, and answer if that is enough."""
        if self.done:
            return
        if self.first is not None:
            answer, settled = self.first()
            if answer is not None:
                self.complete(answer)
            if settled:
                return
        reader = self.reader
        found, counts_for, urgent = reader.read(reader.places(), now)
        if urgent or counts_for >= self.min_bytes or self._outdated():
            self._answer(found, now)

    def _outdated(self) -> bool:
        """Whether a later request of its session took its place."""
        plan = self.reader.plan
        return plan.incremental and plan.session.epoch != plan.epoch

    def expired(self, now: Now) -> None:
        """Answer with what there is."""
        reader = self.reader
        self._answer(reader.read(reader.places(), now)[0], now)

    def _answer(self, found: list[Found], now: Now) -> None:
        reader = self.reader
        if not reader.plan.incremental:  # it is told of every position
            reader.plan.session.note_all()
            found, _, _ = reader.read(reader.places(), now)
        self.complete(reader.respond(found, now))

    def release(self) -> None:
        session = self.reader.plan.session
        if session.parked is self:
            session.parked = None
        if not session.id:
            session.end()


def fetch(
    broker: Broker, context: RequestContext, request: FetchRequest, version: int, now: Now
) -> FetchResponse | FetchWaiting:
    """Serve one Fetch request of a consumer or a follower: the answer, or what waits for it."""
    plan = broker.sessions.plan(request, version, now)
    if plan.error:
        return FetchResponse(error_code=plan.error)
    reader = FetchReader(broker, context, request, version, plan)
    answer = serve(reader, request, reader.asker(request), now)
    assert not isinstance(answer, PlainAnswer)  # only readers of `follower_fetch` give those
    return answer


def serve(
    reader: FetchReader, request: FetchRequest, asker: Asker, now: Now
) -> FetchResponse | FetchWaiting | PlainAnswer:
    """Answer a fetch whose session knows its positions, or let it wait; `request` says for how long."""
    broker, session = reader.broker, reader.plan.session
    session.asked_by(asker, rack_aware=broker.rack_aware, now=now)
    places = reader.places()
    if reader.replica >= 0 and reader.may_replicate():
        reader.record_follower(places, session.asker.epoch, now)
    found, counts_for, urgent = reader.read(places, now)
    min_bytes = min(request.min_bytes, reader.max_bytes)
    if request.max_wait_ms <= 0 or urgent or counts_for >= min_bytes or not session.positions:
        return reader.respond(found, now)
    waiting = FetchWaiting(now.mono + request.max_wait_ms / 1000.0, reader, min_bytes)
    if not waiting.park(now):
        return reader.respond(found, now)
    return waiting
