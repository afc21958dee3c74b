"""One API that a listener serves: its row of the table, and the row at work in one node."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

from barnabas.broker.ports import Operation, ResourceType
from barnabas.errors import KafkaError
from barnabas.server.net.context import RequestContext
from barnabas.server.observe import events
from barnabas.server.observe.metrics import Metrics
from barnabas.wire.codec.message import Message
from barnabas.wire.registry import API_NAMES, request_class, response_class

__all__ = ["Decider", "Handler", "Route", "Row"]

Handler = Callable[[RequestContext, Any], Any]
"""Answers a request: a message, something that will complete it, or None (nobody expects an answer)."""


class Decider(Enum):
    """Who decides what a request comes to."""

    BROKER = "this node, whatever its role"
    CONTROLLER = "the active controller"
    QUORUM = "the quorum's leader, or the voter that is asked"


class Row(NamedTuple):
    """One API.

    `handler` is a method of the part of the node that answers: for CONTROLLER, on the active controller.
    `forward`: a broker sends the request on to the active controller, over its connection for "clients" or over
    the "slow" one, which nothing else waits behind.
    `refused` makes the answer that refuses each item; None: the answer has an error of its own.
    `applied`: answered when this node has carried out what the controller decided.
    `waits`: the API waits by design (long polls, joins), so that a long wait is no news.
    """

    key: int
    low: int
    high: int
    listeners: str
    handler: Callable[[Any, Any, Any], Any]
    operation: Operation
    resource: ResourceType
    decider: Decider = Decider.BROKER
    forward: str = ""
    refused: Callable[[Any, KafkaError], Message] | None = None
    applied: bool = False
    waits: bool = False


class Route:
    """A row of the table at work in one node: its handler, its message class, and what is counted about it.

    `decide` is the row's handler itself; `handler` may look for the active controller first.
    """

    __slots__ = (
        "_class",
        "decide",
        "errors",
        "handled_s",
        "handler",
        "key",
        "name",
        "requests",
        "row",
        "slow_s",
        "total_s",
    )

    def __init__(
        self, row: Row, decide: Handler, metrics: Metrics, slow_s: float, *, handler: Handler | None = None
    ) -> None:
        self.row = row
        self.decide = decide
        self.handler = handler or decide
        self.key = row.key
        self.name = API_NAMES[row.key]
        self.slow_s = slow_s
        self._class: type[Message] | None = None
        base = "kafka.network:type=RequestMetrics,name="
        tag = f",request={self.name}"
        self.requests = metrics.counter(f"{base}RequestsPerSec{tag}", "Requests received")
        self.errors = metrics.counter(f"{base}ErrorsPerSec{tag}", "Requests that failed as a whole")
        self.handled_s = metrics.histogram(f"{base}LocalTimeMs{tag}", "Seconds in the handler")
        self.total_s = metrics.histogram(f"{base}TotalTimeMs{tag}", "Seconds from arrival to answer")

    @property
    def request_class(self) -> type[Message]:
        """Loaded with its family when the first such request comes."""
        found = self._class
        if found is None:
            found = self._class = request_class(self.key)
        return found

    def finished(self, context: RequestContext, handled: float, done: float) -> None:
        """A request was answered: count it, and say so if it was slow (long polls may wait as they like)."""
        received = context.received
        self.handled_s.note(handled - received)
        self.total_s.note(done - received)
        spent = handled - received if self.row.waits else done - received
        if spent > self.slow_s:
            events.emit(
                events.REQUEST_SLOW,
                reason=self.name,
                api=self.name,
                request=context.request_id,
                client=f"{context.client_host}:{context.client_port}",
                client_id=context.client_id,
                handled_ms=f"{(handled - received) * 1000:.1f}",
                waited_ms=f"{(done - handled) * 1000:.1f}",
            )

    def error_answer(self, error: KafkaError) -> Message | None:
        """The API's answer that is nothing but an error; None where it has no place for one."""
        made = response_class(self.key)
        if "error_code" not in made.__annotations__:
            return None
        fields: dict[str, Any] = {"error_code": int(error.code)}
        if "error_message" in made.__annotations__ and error.message != error.code.name:
            fields["error_message"] = error.message
        return made(**fields)

    def __repr__(self) -> str:
        return f"<Route {self.name} {self.row.low}-{self.row.high} requests={self.requests.value}>"
