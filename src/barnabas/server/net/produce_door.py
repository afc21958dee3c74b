"""The Produce requests of one connection, from the bytes of a read to the place of their answers in the line.

A producer's requests mostly begin with the same bytes: those that do, and arrive in one read, become rows in one
call, are served in one, and share a place in the line.  What begins with other bytes, and what is not plain to
read, is read anew, and served by the same `Produces`.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

from barnabas.broker.requests.produce import Produces
from barnabas.broker.requests.produced import Batches, Produced
from barnabas.broker.requests.validation import PACKED_AT_ONCE, RECORDS_WALKED_AT_ONCE, UNPACKED_AT_ONCE
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import Now
from barnabas.server.net.context import RequestContext
from barnabas.server.observe import events
from barnabas.wire.codec.message import decode_whole
from barnabas.wire.frame import write_response
from barnabas.wire.plane.objects import produced_by, response_to_producer
from barnabas.wire.plane.produce_asked import CLOSER, ProduceRows, Terms, terms_of, unpack
from barnabas.wire.plane.produce_told import ProduceAnswer, write_produce_answer
from barnabas.wire.schemas.produce import ProduceRequest

if TYPE_CHECKING:
    from barnabas.broker.replicas.broker import Broker
    from barnabas.server.net.connection import Connection
    from barnabas.server.net.network import Network
    from barnabas.server.net.route import Route
    from barnabas.server.observe.traffic import Traffic

__all__ = ["ProduceDoor"]

FIRST_AHEAD, MOST_AHEAD = 1, 128
"""Requests of a read that are looked at together, at first and at most."""
LEAST_COPIED_BYTES, MOST_COPIED_BYTES = 16 * 1024, 128 * 1024
"""Compiled code reads a copy of so much of a read, or of a request that is larger."""
_LENGTH_BYTES = 4
_MOST_HEADS = 64
"""Ways to begin a request that are remembered for one connection."""


class ProduceDoor:
    """The way in for the Produce requests of one connection."""

    __slots__ = (
        "_ahead",
        "_clock",
        "_heads",
        "_known",
        "_received",
        "_served",
        "_traffic",
        "broker",
        "connection",
        "network",
        "now",
        "route",
    )

    def __init__(
        self, network: Network, broker: Broker, traffic: Traffic, connection: Connection, route: Route
    ) -> None:
        self.network = network
        self.connection = connection
        self.route = route
        self.broker = broker
        self._traffic = traffic
        self._clock = network.runtime.clock
        self._heads: dict[bytes, tuple[Produces, RequestContext]] = {}
        """By the bytes that requests begin with."""
        self._known: dict[tuple[str | None, Terms], Produces] = {}
        """By client and terms."""
        self._ahead = FIRST_AHEAD
        """Requests of a read that are looked at together: ever more while they are alike."""
        self.now = Now(0.0, 0)
        """Time at which the requests in hand came."""
        self._received = -1.0
        self._served = False

    def take(self, data: memoryview, begin: int, end: int, total: int, received: float) -> tuple[int, bool]:
        """Serve the request data[begin:end], and those behind it, up to `total`, that begin alike.

        Returns where the last of them ends, and whether their bytes must stay until the end of the loop step.  (0,
        False): nothing was done, the first has to be read anew.
        """
        connection, network, ahead = self.connection, self.network, self._ahead
        found = ProduceRows(RECORDS_WALKED_AT_ONCE, network.limits.max_elements, PACKED_AT_ONCE)
        if ahead > 1 and total - end > _LENGTH_BYTES:
            room = network.limits.max_pipelined - len(connection.line) - connection.more
            first = end - begin + _LENGTH_BYTES
            window = max(first, min(max(ahead * first, LEAST_COPIED_BYTES), MOST_COPIED_BYTES))
            most = min(ahead, room)
            found.read(data, begin - _LENGTH_BYTES, total, window, connection.max_frame, most)
        else:
            found.one(data, begin, end)
        taken = found.requests
        known = self._heads.get(found.head) if taken else None
        if known is None:
            return 0, False
        produces, context = known
        if network.throttle.quotas.active and (throttle := connection.throttle) is not None:
            if throttle.is_limited(context):
                return 0, False
        if taken == ahead:
            if ahead < MOST_AHEAD and total - found.end > 0:
                self._ahead = 2 * ahead
        elif total - found.end > _LENGTH_BYTES:
            self._ahead = taken
        network.request_ids += taken
        self.route.requests.value += taken
        return found.end, self._serve(produces, found, received)

    def read_anew(self, context: RequestContext, frame: memoryview, body: int) -> bool:
        """Serve a frame whose header was read, and counted; its body begins at `body`.

        Returns whether its bytes must stay until the end of the step.  Raises WireError where it is no Produce.
        """
        connection, most = self.connection, self.network.limits.max_elements
        found = ProduceRows(RECORDS_WALKED_AT_ONCE, most, PACKED_AT_ONCE)
        found.one(frame, 0, len(frame))
        if found.requests:
            _, terms = terms_of(found.head)
        else:
            request = decode_whole(ProduceRequest, frame, context.version, body, most=most)
            terms, found = produced_by(context.header, request)
        key = context.client_id, terms
        produces = self._known.get(key)
        if produces is None:
            if len(self._known) >= _MOST_HEADS:
                self._known.clear()
                self._heads.clear()
            produces = self._known[key] = Produces(self.broker, context, terms)
        if found.head and len(self._heads) < _MOST_HEADS:
            self._heads[found.head] = produces, context
        throttle = connection.throttle
        if throttle is None:
            return self._serve(produces, found, context.received)
        throttle.arrived(connection, context)
        clock = self.network.platform.monotonic
        begun = clock()
        keep = self._serve(produces, found, context.received, context)
        if terms.acks:
            throttle.handled(connection, context, clock() - begun)
        return keep

    def _serve(
        self, produces: Produces, found: ProduceRows, received: float, context: RequestContext | None = None
    ) -> bool:
        """Append the batches of these requests, and let them wait in their connection's line.

        `context` is that of one whose client is limited by a quota.
        """
        if received != self._received:
            self._received, self.now = received, self._clock.now()
        connection, traffic = self.connection, self._traffic
        requests: int = found.requests
        if found.packed:
            unpack(found, UNPACKED_AT_ONCE)
        traffic.messages_in.value += found.records
        traffic.bytes_in.value += found.size
        if found.closer:
            traffic.batches(row[3] for row in found.rows if row[1] & CLOSER)
        run = _Place(self, produces, received, context)
        self._served = True
        try:
            produces.serve(found, run, self.now)
        except KafkaError as error:
            handled = monotonic() - received
            self.answered(requests, handled / requests, handled)
            self.hang_up(error)
            return True
        except Exception as error:
            events.emit(events.REQUEST_FAILED, reason=self.route.name, api=self.route.name, error=error)
            connection.close()
            return True
        run.handled = handled = monotonic() - received
        run.handled /= requests
        if not produces.terms.acks:
            self.answered(requests, run.handled, handled)
            if run.open:
                connection.line.append(run)
            return not run.written
        connection.line.append(run)
        connection.more += requests - 1
        if run.early or not run.open:
            connection.slot_done(run)
        return not run.written

    def end_of_read(self) -> Now | None:
        """Every frame of one read was handed on.  Returns when they were served: the loop step must end because of
        them."""
        if not self._served:
            return None
        self._served = False
        return self.now

    def hang_up(self, error: KafkaError) -> None:
        """Nobody expects an answer, so this is all that an error can do."""
        self.route.errors.value += 1
        events.emit(
            events.REQUEST_REFUSED,
            reason=f"{self.route.name} {error.code.name}",
            api=self.route.name,
            request=self.network.request_ids,
            code=error.code.name,
            error=error,
        )
        self.connection.close()

    def answered(self, count: int, handled: float, spent: float) -> None:
        """Requests of one read were answered: seconds in the handler for each, and from arrival to answer."""
        route = self.route
        if count == 1:
            route.handled_s.note(handled)
            route.total_s.note(spent)
        else:
            route.handled_s.observe(handled, count)
            route.total_s.observe(spent, count)
        if spent > route.slow_s:
            client = f"{self.connection.client.host}:{self.connection.client.port}"
            waited = f"{spent * 1000:.1f}"
            events.emit(events.REQUEST_SLOW, api=route.name, requests=count, client=client, waited_ms=waited)

    def __repr__(self) -> str:
        return f"<ProduceDoor {len(self._known)}>"


class _Place(Produced):
    """The place of the requests of one read in their connection's line."""

    __slots__ = ("_context", "_door", "_next", "_received", "_version", "handled")

    def __init__(
        self, door: ProduceDoor, produces: Produces, received: float, context: RequestContext | None
    ) -> None:
        Produced.__init__(self, door.broker.purgatory, produces.terms, door.now)
        self._door = door
        self._version = produces.terms.version
        self._received = received
        self._context = context
        self._next = 0
        self.handled = 0.0
        """Seconds that each of its requests took."""

    def send(self, now: float) -> bool:
        """Its turn has come: send the answers that are there, up to the first that is not.

        Returns whether that was all.
        """
        if not self.terms.acks:
            return self._end_unanswered()
        door, replies = self._door, self.replies
        connection = door.connection
        begun = at = self._next
        parts: list[bytes] = []
        known: Batches | None = None
        for reply in replies[at:] if at else replies:
            if isinstance(reply, tuple):
                batches, correlation, first, time = reply
                if batches is not known:
                    if not batches.done:
                        self.awaited = batches
                        break
                    known, told = batches, batches.destination.told
                    size, middle, start, after = told.size, told.middle, batches.start, told.after
                    plain = not batches.error and told.with_start and self._context is None
                if plain and first >= 0:
                    parts.append(told.pack(size, correlation, middle, 0, first, time, start, after))
                else:
                    answer = ProduceAnswer([(batches.destination.topic, [batches.row(first, time)])])
                    parts.append(self._encoded(correlation, answer))
            else:
                if self.open and (waits_for := reply.waits_for()) is not None:
                    self.awaited = waits_for
                    break
                parts.append(self._encoded(reply.correlation, reply.answer()))
            at += 1
        if at == begun:
            return False
        self._next = at
        answers = b"".join(parts) if len(parts) > 1 else parts[0]
        if at == len(replies) and len(connection.line) == 1:  # (nothing of this loop step follows)
            connection.send_queue.send_small(answers)
        else:
            connection.send_queue.add_small(answers)
        connection.look_again()
        door.answered(at - begun, self.handled, now - self._received)
        if at < len(replies):
            connection.more -= at - begun
            return False
        connection.more -= at - begun - 1
        return True

    def _encoded(self, correlation: int, answer: ProduceAnswer) -> bytes:
        """The frame of an answer that is not packed ahead."""
        connection, version = self._door.connection, self._version
        if self._context is not None and (throttle := connection.throttle) is not None:
            answer = throttle.answering(connection, self._context, answer)
        if not answer.is_rare:
            return write_produce_answer(correlation, version, answer)
        parts: list[Any] = []
        write_response(
            parts, correlation, self._door.route.key, version, response_to_producer(version, answer)
        )
        return b"".join(parts)

    def _end_unanswered(self) -> bool:
        """Nobody expects an answer, but an error ends the connection."""
        for batches in self.batches:
            if batches.error:
                message = "" if batches.extra is None else batches.extra.message or ""
                self._door.hang_up(KafkaError(ErrorCode(batches.error), message))
                break
        return not self.open

    def look(self) -> None:
        """All of its batches are done, or those that the next reply waits for: there may be something to send."""
        if not self.open and self.bucket is not None:
            self.unpark()
        self._door.connection.slot_done(self)

    def __repr__(self) -> str:
        return f"<_Place {self._next} of {len(self.replies)} answered>"
