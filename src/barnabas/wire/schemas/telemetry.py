"""Metrics that clients send (KIP-714).

Declarations printed by tools/print_messages.py; change that, not this.
"""

from __future__ import annotations

from barnabas.wire.codec.declaration import ZERO_UUID, Array, Bool, Bytes, Int8, Int16, Int32, String, Uuid
from barnabas.wire.codec.message import Message

__all__ = [
    "GetTelemetrySubscriptionsRequest",
    "GetTelemetrySubscriptionsResponse",
    "PushTelemetryRequest",
    "PushTelemetryResponse",
]


class GetTelemetrySubscriptionsRequest(Message, key=71, versions="0", flexible="0+"):
    """Ask which metrics to send."""

    client_instance_id: Uuid = ZERO_UUID


class GetTelemetrySubscriptionsResponse(Message, key=71, versions="0", flexible="0+"):
    """Metrics, interval, codecs."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    client_instance_id: Uuid = ZERO_UUID
    subscription_id: Int32 = 0
    accepted_compression_types: Array[Int8] = []
    push_interval_ms: Int32 = 0
    telemetry_max_bytes: Int32 = 0
    delta_temporality: Bool = False
    requested_metrics: Array[String] = []


class PushTelemetryRequest(Message, key=72, versions="0", flexible="0+"):
    """Metrics of a client."""

    client_instance_id: Uuid = ZERO_UUID
    subscription_id: Int32 = 0
    terminating: Bool = False
    compression_type: Int8 = 0
    metrics: Bytes = b""


class PushTelemetryResponse(Message, key=72, versions="0", flexible="0+"):
    """Whether they were taken."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
