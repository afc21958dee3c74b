"""GetTelemetrySubscriptions and PushTelemetry: what clients shall push, and what they push (KIP-714)."""

from __future__ import annotations

from barnabas.broker.telemetry.instances import Sender
from barnabas.broker.telemetry.telemetry import Telemetry
from barnabas.ports import Clock
from barnabas.server.net.context import RequestContext
from barnabas.wire.schemas.telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
    PushTelemetryResponse,
)

__all__ = ["TelemetryApi"]


class TelemetryApi:
    """Hands requests to the broker's telemetry."""

    __slots__ = ("_clock", "_telemetry")

    def __init__(self, telemetry: Telemetry, clock: Clock) -> None:
        self._telemetry = telemetry
        self._clock = clock

    def subscriptions(
        self, context: RequestContext, request: GetTelemetrySubscriptionsRequest
    ) -> GetTelemetrySubscriptionsResponse:
        """GetTelemetrySubscriptions (key 71)."""
        return self._telemetry.ask(_sender(context), request, self._clock.now())

    def push(self, context: RequestContext, request: PushTelemetryRequest) -> PushTelemetryResponse:
        """PushTelemetry (key 72)."""
        return self._telemetry.push(_sender(context), request, self._clock.now())


def _sender(context: RequestContext) -> Sender:
    name, _, version = context.client.software.partition(" ")
    return Sender(
        context.connection_id,
        context.client_id or "",
        name,
        version,
        context.client_host,
        context.client_port,
    )
