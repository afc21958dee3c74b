"""GetTelemetrySubscriptions and PushTelemetry: what clients shall push, and what they push (KIP-714).

The telemetry of a broker, and its messages, are loaded when the first client asks: a start does not wait for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.controller.image import RESOURCE_METRICS, ImageDelta
from barnabas.errors import ErrorCode
from barnabas.server.kraft.driver import Quorum
from barnabas.server.loop.runtime import Runtime
from barnabas.server.net.context import RequestContext
from barnabas.server.observe import events

if TYPE_CHECKING:
    from barnabas.broker.telemetry.instances import Sender
    from barnabas.broker.telemetry.telemetry import Telemetry
    from barnabas.wire.schemas.telemetry import (
        GetTelemetrySubscriptionsRequest,
        GetTelemetrySubscriptionsResponse,
        PushTelemetryRequest,
        PushTelemetryResponse,
    )

__all__ = ["TelemetryApi"]

_KEYS = frozenset({71, 72})
"""GetTelemetrySubscriptions and PushTelemetry."""
_WORTH_A_LINE = (
    ErrorCode.INVALID_RECORD,
    ErrorCode.TELEMETRY_TOO_LARGE,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
)
"""Refusals that an operator may want to know of: the others are part of the protocol."""


class TelemetryApi:
    """Hands requests to the broker's telemetry."""

    __slots__ = ("_quorum", "_runtime", "_subscribed", "telemetry")

    def __init__(self, runtime: Runtime, quorum: Quorum) -> None:
        self._runtime = runtime
        self._quorum = quorum
        self.telemetry: Telemetry | None = None
        """None until the first client asked."""
        self._subscribed: bool | None = None

    def changed(self, delta: ImageDelta) -> None:
        """The metadata changed."""
        if any(kind == RESOURCE_METRICS for kind, _ in delta.configs):
            self._subscribed = None
            if self.telemetry is not None:
                self.telemetry.follow(delta.image.configs)

    def not_advertised(self) -> frozenset[int]:
        """Return the keys of APIs that clients need not know of now: these, while nobody asks for their metrics.

        librdkafka prints a line to standard error for each answer that asks for none.
        """
        if self._subscribed is None:
            configs = self._quorum.image.configs
            self._subscribed = any(
                kind == RESOURCE_METRICS and values for (kind, _), values in configs.items()
            )
        return frozenset() if self._subscribed else _KEYS

    def subscriptions(
        self, context: RequestContext, request: GetTelemetrySubscriptionsRequest
    ) -> GetTelemetrySubscriptionsResponse:
        """GetTelemetrySubscriptions (key 71)."""
        return self._loaded().ask(_sender(context), request, self._runtime.clock.now())

    def push(self, context: RequestContext, request: PushTelemetryRequest) -> PushTelemetryResponse:
        """PushTelemetry (key 72)."""
        answer = self._loaded().push(_sender(context), request, self._runtime.clock.now())
        if answer.error_code in _WORTH_A_LINE:
            events.emit(
                events.TELEMETRY_REFUSED,
                reason=str(answer.error_code),
                code=ErrorCode(answer.error_code).name,
                client=f"{context.client_host}:{context.client_port}",
                client_id=context.client_id,
                software=context.client.software,
                codec=request.compression_type,
                bytes=len(request.metrics),
            )
        return answer

    def _loaded(self) -> Telemetry:
        if self.telemetry is None:
            from barnabas.broker.telemetry.telemetry import Telemetry

            self.telemetry = Telemetry(self._runtime.config, self._runtime.random)
            self.telemetry.follow(self._quorum.image.configs)
        return self.telemetry

    def __repr__(self) -> str:
        return f"<TelemetryApi {self.telemetry!r}>"


def _sender(context: RequestContext) -> Sender:
    from barnabas.broker.telemetry.instances import Sender

    name, _, version = context.client.software.partition(" ")
    return Sender(
        context.connection_id,
        context.client_id or "",
        name,
        version,
        context.client_host,
        context.client_port,
    )
