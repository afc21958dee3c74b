"""The telemetry of this broker's clients: GetTelemetrySubscriptions and PushTelemetry (KIP-714)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from barnabas.broker.telemetry.instances import Instances, Sender
from barnabas.broker.telemetry.otlp import Labels, read_push
from barnabas.broker.telemetry.pushed import PushedMetrics, PushedStatistics, Series
from barnabas.config import Config
from barnabas.controller.image import Resource
from barnabas.errors import CorruptRecordError, ErrorCode, KafkaError
from barnabas.model import Now, Uuid
from barnabas.ports import Randomness
from barnabas.wire.compression import decompress
from barnabas.wire.schemas.telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
    PushTelemetryResponse,
)

__all__ = ["Telemetry"]

LONGEST_ABOUT = 200
"""Characters of what a client says of itself that are shown."""


class Telemetry:
    """Decides what clients push, and keeps it.  `refused` counts pushes that could not be read."""

    def __init__(self, config: Config, randomness: Randomness) -> None:
        self.instances = Instances(randomness.uuid, config.int("telemetry.max.bytes"))
        self.pushed = PushedMetrics(config.int("barnabas.telemetry.max.series"))
        self.taken = self.refused = 0

    def follow(self, configs: Mapping[Resource, Mapping[str, str]]) -> None:
        """Take the subscriptions as the metadata have them now."""
        self.instances.follow(configs)

    def ask(
        self, sender: Sender, request: GetTelemetrySubscriptionsRequest, now: Now
    ) -> GetTelemetrySubscriptionsResponse:
        """GetTelemetrySubscriptions (key 71)."""
        return self.instances.ask(sender, request, now)

    def push(self, sender: Sender, request: PushTelemetryRequest, now: Now) -> PushTelemetryResponse:
        """PushTelemetry (key 72).  A push that cannot be read changes nothing of what is kept."""
        try:
            instance = self.instances.check_push(sender, request, now)
        except KafkaError as error:
            return PushTelemetryResponse(error_code=error.code)
        try:
            found = read_push(self._unpacked(request))
        except KafkaError as error:
            self.refused += 1
            instance.last_error = error.code
            return PushTelemetryResponse(error_code=error.code)
        self.taken += 1
        instance.last_error = ErrorCode.NONE
        about = {
            "client_id": sender.client_id[:LONGEST_ABOUT],
            "client_software_name": sender.software_name[:LONGEST_ABOUT],
            "client_software_version": sender.software_version[:LONGEST_ABOUT],
            "client_source_address": sender.address,
        }
        self.pushed.take(request.client_instance_id, about, found, instance.kept_s, now)
        return PushTelemetryResponse()

    def _unpacked(self, request: PushTelemetryRequest) -> bytes:
        if not request.metrics:
            return b""
        try:
            return decompress(request.compression_type, request.metrics, self.instances.max_bytes)
        except CorruptRecordError as error:
            raise KafkaError(ErrorCode.INVALID_RECORD, str(error)) from error

    def clients(self, now: Now) -> Iterator[tuple[Uuid, Labels, list[Series]]]:
        """What is kept: each client's id, who it is, and its series."""
        return self.pushed.clients(now)

    def statistics(self) -> PushedStatistics:
        """How much is kept."""
        return self.pushed.statistics()

    def __repr__(self) -> str:
        return f"<Telemetry {self.instances!r} {self.pushed!r}>"
