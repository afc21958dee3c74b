"""How many partitions a client may have the controller create and delete: `controller_mutation_rate` (KIP-599).

A client has a bucket of tokens, one for each partition.  It fills at the rate of the quota up to the worth of
all windows.  While it is not empty a topic may take more than is left; then it is refused until it is filled
again.  Requests of older versions, which know no such refusal, are carried out and only told to wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from barnabas.broker.quotas.client_quotas import ClientQuotas
from barnabas.controller.image import MetadataImage, QuotaEntity, Topic
from barnabas.model import ZERO_UUID
from barnabas.wire.codec.message import Message, replace

__all__ = ["CHARGED", "Charge", "Mutations"]

MUTATIONS = "controller_mutation_rate"
_CREATE, _DELETE, _GROW = 19, 20, 37
CHARGED = {_CREATE: 6, _DELETE: 5, _GROW: 3}
"""The requests that are charged, by API key: the first version that may be refused."""


class Charge(NamedTuple):
    """What a request comes to: the part that is decided, the part that is refused, and how long to wait (s)."""

    decided: Message | None
    refused: Message | None
    wait_s: float


class _Bucket:
    __slots__ = ("_at", "_tokens")

    def __init__(self) -> None:
        self._at = self._tokens = float("-inf")  # full at the first look

    def wait(self, rate: float, most: float, now: float) -> float:
        """Seconds until it may be taken from."""
        self._tokens = most if self._at < 0 else min(most, self._tokens + (now - self._at) * rate)
        self._at = now
        return max(0.0, -self._tokens / rate)

    def take(self, count: int) -> None:
        self._tokens -= count


class Mutations:
    """`mutations.charge(...)` at the active controller.  `windows` and `window_s` bound what may go at once."""

    __slots__ = ("_buckets", "_quotas", "_worth_s")

    def __init__(self, windows: int, window_s: int) -> None:
        self._worth_s = windows * window_s
        self._quotas = ClientQuotas(windows, window_s)
        self._buckets: dict[object, _Bucket] = {}

    def follow(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Take the quotas as the metadata have them now."""
        limited = {entity: values for entity, values in quotas.items() if MUTATIONS in values}
        self._quotas.follow(limited)
        if not limited:
            self._buckets.clear()

    @property
    def active(self) -> bool:
        """Whether anybody is limited."""
        return self._quotas.active

    def charge(
        self,
        key: int,
        version: int,
        request: Any,
        user: str,
        client: str,
        image: MetadataImage,
        partitions: int,
        now: float,
    ) -> Charge:
        """Charge each topic of the request.  `partitions` is how many a topic gets whose creator names none."""
        limit = self._quotas.limit_of(MUTATIONS, user, client)
        if limit is None:
            return Charge(request, None, 0.0)
        bucket = self._buckets.setdefault(limit.whom, _Bucket())
        most = limit.rate * self._worth_s
        field = "topic_names" if key == _DELETE and version < 6 else "topics"
        decided, refused, wait_s = [], [], 0.0
        for topic in getattr(request, field):
            wait = bucket.wait(limit.rate, most, now)
            wait_s = max(wait_s, wait)
            if wait > 0 and version >= CHARGED[key]:
                refused.append(topic)
            else:
                decided.append(topic)
                bucket.take(_partitions_of(key, topic, image, partitions))
        if version < CHARGED[key]:
            wait_s = max(wait_s, bucket.wait(limit.rate, most, now))
        return Charge(
            replace(request, **{field: decided}) if decided or not refused else None,
            replace(request, **{field: refused}) if refused else None,
            wait_s,
        )

    def __repr__(self) -> str:
        return f"<Mutations of {len(self._buckets)} clients>"


def _partitions_of(key: int, topic: Any, image: MetadataImage, default: int) -> int:
    """How many partitions are made or deleted; 0 for what will be refused anyway."""
    if key == _CREATE:
        if image.topic(topic.name) is not None:
            return 0
        return len(topic.assignments) or (default if topic.num_partitions < 0 else topic.num_partitions)
    known = _known(topic, image)
    if known is None:
        return 0
    return len(known.partitions) if key == _DELETE else max(0, topic.count - len(known.partitions))


def _known(topic: Any, image: MetadataImage) -> Topic | None:
    if isinstance(topic, str):
        return image.topic(topic)
    topic_id = getattr(topic, "topic_id", ZERO_UUID)
    if topic_id != ZERO_UUID:
        return image.topics.get(topic_id)
    return None if topic.name is None else image.topic(topic.name)
