"""The clients that push metrics: what each was told to send, and when it may ask and push again (KIP-714).

A client asks what to send (GetTelemetrySubscriptions), then pushes at that interval (PushTelemetry).  Both are
refused when they come too early.  A client is known by the id that it was given, on the connection on which it
was heard last: on another one it begins anew.  At most `MOST_INSTANCES` are known; the one heard longest ago
goes first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import NamedTuple

from crc32c import crc32c

from barnabas.broker.telemetry.subscriptions import Subscription, Wanted, subscriptions_of, wanted_of
from barnabas.controller.image import Resource
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import ZERO_UUID, Now, Uuid
from barnabas.wire.compression import Codec
from barnabas.wire.schemas.telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
)

__all__ = ["ACCEPTED_CODECS", "Instance", "Instances", "InstancesStatistics", "Sender"]

ACCEPTED_CODECS = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)
"""In the order in which clients shall prefer them; what is not packed is taken too."""
MOST_INSTANCES = 16_384
LEAST_KEPT_S = 60.0
"""How long a silent client is known at least."""
_RESERVED = (ZERO_UUID, Uuid.of(0, 1))
_NEVER = float("-inf")


class Sender(NamedTuple):
    """Who sends a request: its connection, and what subscriptions may ask of it."""

    connection_id: int
    client_id: str
    software_name: str
    software_version: str
    address: str
    port: int

    def attributes(self, instance_id: Uuid) -> dict[str, str]:
        """Its attributes by the names that the setting `match` has for them."""
        return {
            "client_instance_id": str(instance_id),
            "client_id": self.client_id,
            "client_software_name": self.software_name,
            "client_software_version": self.software_version,
            "client_source_address": self.address,
            "client_source_port": str(self.port),
        }


class Instance:
    """One client.  Times are monotonic seconds."""

    __slots__ = (
        "asked_at",
        "connection_id",
        "expires_at",
        "last_error",
        "pushed_at",
        "subscription_id",
        "terminating",
        "version",
        "wanted",
    )

    def __init__(self, instance_id: Uuid, connection_id: int, wanted: Wanted, version: int) -> None:
        self.connection_id = connection_id
        self.wanted = wanted
        self.version = version
        self.subscription_id = _subscription_id(instance_id, wanted)
        self.asked_at = self.pushed_at = _NEVER
        self.expires_at = _NEVER
        self.terminating = False
        self.last_error = ErrorCode.NONE

    @property
    def kept_s(self) -> float:
        """How long it is known when it is silent: three intervals."""
        return max(LEAST_KEPT_S, self.wanted.interval_ms * 3 / 1000)

    def may_ask(self, now: float) -> bool:
        """Whether an interval is over since it was heard, or it must ask because of its last push."""
        if now - max(self.asked_at, self.pushed_at) >= self.wanted.interval_ms / 1000:
            self.asked_at = now
            return True
        return self.last_error in (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)

    def may_push(self, now: float) -> bool:
        """Whether it asked since its last push, or an interval is over since then."""
        due = self.asked_at > self.pushed_at or now - self.pushed_at >= self.wanted.interval_ms / 1000
        if due:
            self.pushed_at = now
        return due

    def __repr__(self) -> str:
        return f"<Instance {self.wanted} subscription={self.subscription_id} {self.last_error.name}>"


class InstancesStatistics(NamedTuple):
    """Counts for the metrics."""

    known: int
    throttled: int
    unknown_subscriptions: int


class Instances:
    """`instances.ask(...)`, `instances.check_push(...)`; `follow` takes the subscriptions of the metadata.

    `new_id` makes ids of clients, `max_bytes` is the most that one push may have.
    """

    def __init__(self, new_id: Callable[[], Uuid], max_bytes: int) -> None:
        self._new_id = new_id
        self.max_bytes = max_bytes
        self._subscriptions: list[Subscription] = []
        self._version = 0
        self._instances: OrderedDict[Uuid, Instance] = OrderedDict()
        self._throttled = self._unknown = 0

    def follow(self, configs: Mapping[Resource, Mapping[str, str]]) -> None:
        """The subscriptions changed: each client hears of it when it asks or pushes next."""
        self._subscriptions = subscriptions_of(configs)
        self._version += 1

    def ask(
        self, sender: Sender, request: GetTelemetrySubscriptionsRequest, now: Now
    ) -> GetTelemetrySubscriptionsResponse:
        """GetTelemetrySubscriptions."""
        instance_id = request.client_instance_id
        if instance_id == ZERO_UUID:
            instance_id = self._new_id()
        instance = self._instance(instance_id, sender, now)
        if not instance.may_ask(now.mono):
            self._throttled += 1
            return GetTelemetrySubscriptionsResponse(error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        instance.last_error = ErrorCode.NONE
        return GetTelemetrySubscriptionsResponse(
            client_instance_id=instance_id,
            subscription_id=instance.subscription_id,
            accepted_compression_types=[int(codec) for codec in ACCEPTED_CODECS],
            push_interval_ms=instance.wanted.interval_ms,
            telemetry_max_bytes=self.max_bytes,
            delta_temporality=False,
            requested_metrics=list(instance.wanted.metrics),
        )

    def check_push(self, sender: Sender, request: PushTelemetryRequest, now: Now) -> Instance:
        """The client whose push may be read.  Raises KafkaError with the code of PushTelemetry that refuses it."""
        instance_id = request.client_instance_id
        if instance_id in _RESERVED:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{instance_id} is no id of a client")
        instance = self._instance(instance_id, sender, now)
        try:
            self._check(instance, request, now)
        except KafkaError as error:
            instance.last_error = error.code
            raise
        finally:
            instance.terminating = request.terminating
        return instance

    def _check(self, instance: Instance, request: PushTelemetryRequest, now: Now) -> None:
        if instance.terminating:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the client said that its last push was its last one")
        if not instance.may_push(now.mono) and not request.terminating:
            self._throttled += 1
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "the next push is not due yet")
        if request.subscription_id != instance.subscription_id:
            self._unknown += 1
            raise KafkaError(
                ErrorCode.UNKNOWN_SUBSCRIPTION_ID, f"the client's subscription is {instance.subscription_id}"
            )
        if request.compression_type not in (Codec.NONE, *ACCEPTED_CODECS):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"there is no codec {request.compression_type}"
            )
        if len(request.metrics) > self.max_bytes:
            raise KafkaError(
                ErrorCode.TELEMETRY_TOO_LARGE, f"{len(request.metrics)} bytes; {self.max_bytes} are the most"
            )

    def _instance(self, instance_id: Uuid, sender: Sender, now: Now) -> Instance:
        """The client, told anew what to send where that changed; it is known again for some intervals."""
        self._forget(now.mono)
        known = self._instances.get(instance_id)
        if known is None or known.connection_id != sender.connection_id or known.version != self._version:
            wanted = wanted_of(self._subscriptions, sender.attributes(instance_id))
            known = Instance(instance_id, sender.connection_id, wanted, self._version)
            self._instances[instance_id] = known
        known.expires_at = now.mono + known.kept_s
        self._instances.move_to_end(instance_id)
        while len(self._instances) > MOST_INSTANCES:
            self._instances.popitem(last=False)
        return known

    def _forget(self, now: float) -> None:
        """Forget who was silent for too long, of those heard longest ago."""
        while self._instances:
            instance_id, oldest = next(iter(self._instances.items()))
            if oldest.expires_at > now:
                return
            del self._instances[instance_id]

    def statistics(self) -> InstancesStatistics:
        """Counts, computed now."""
        return InstancesStatistics(len(self._instances), self._throttled, self._unknown)

    def __repr__(self) -> str:
        return f"<Instances {len(self._instances)} of {len(self._subscriptions)} subscriptions>"


def _subscription_id(instance_id: Uuid, wanted: Wanted) -> int:
    """The same on every broker, and another one when the client shall send something else."""
    said = crc32c(repr(wanted).encode())
    low = (said ^ crc32c(bytes(instance_id))) & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low
