"""Requests that the active controller decides: they are submitted to it where this node is the one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from barnabas.broker.quotas.mutations import CHARGED, Charge, Mutations
from barnabas.controller.image import ImageDelta
from barnabas.errors import ErrorCode, KafkaError
from barnabas.server.api import item_errors
from barnabas.server.kraft.driver import Quorum
from barnabas.server.loop.runtime import Runtime
from barnabas.server.loop.tasks import after
from barnabas.server.net.context import RequestContext
from barnabas.server.replication.fast_fencing import FastFencing
from barnabas.wire.codec.message import Message, replace
from barnabas.wire.schemas.brokers import BrokerHeartbeatRequest

__all__ = ["ControllerApi"]

_REFUSED: dict[int, tuple[Callable[[Any, KafkaError], Message], str]] = {
    19: (item_errors.create_topics, "topics"),
    20: (item_errors.delete_topics, "responses"),
    37: (item_errors.create_partitions, "results"),
}
"""By API key: what refuses each topic of a request, and the field of the answer that has them."""


class ControllerApi:
    """Submits to the quorum's controller.  `fencing` hears which brokers report; None: nobody is fenced early."""

    __slots__ = ("_fencing", "_mutations", "_quorum", "_runtime")

    def __init__(self, runtime: Runtime, quorum: Quorum, fencing: FastFencing | None) -> None:
        config = runtime.config
        self._runtime = runtime
        self._fencing = fencing
        self._quorum = quorum
        self._mutations = Mutations(
            config.int("controller.quota.window.num"), config.int("controller.quota.window.size.seconds")
        )
        self._mutations.follow(quorum.image.client_quotas)
        quorum.on_change(self._metadata_changed)

    def _metadata_changed(self, delta: ImageDelta) -> None:
        if delta.quotas:
            self._mutations.follow(delta.image.client_quotas)

    def decide(self, context: RequestContext, request: Message) -> Message | asyncio.Future[Message]:
        """Any request of which `controller.controller` knows who decides it; answered when it is committed."""
        if self._mutations.active and context.api_key in CHARGED and self._quorum.is_active_controller:
            return self._charged(context, request)
        return self._quorum.submit(request, context.version, context.principal)

    def _charged(self, context: RequestContext, request: Message) -> Message | asyncio.Future[Message]:
        """Charge the request to its client; what is above its quota is refused, topic by topic (KIP-599)."""
        key, runtime = context.api_key, self._runtime
        charge = self._mutations.charge(
            key,
            context.version,
            request,
            context.user,
            context.client_id or "",
            self._quorum.image,
            runtime.config.int("num.partitions"),
            runtime.clock.now().mono,
        )
        if charge.decided is None:
            return _with_refused(key, charge, None)
        answer = self._quorum.submit(charge.decided, context.version)
        if charge.refused is None and not charge.wait_s:
            return answer
        return after(answer, lambda decided: _with_refused(key, charge, decided))

    def heartbeat(self, context: RequestContext, request: BrokerHeartbeatRequest) -> asyncio.Future[Message]:
        """BrokerHeartbeat (key 63; KIP-631): a broker reports."""
        if self._fencing is not None:
            self._fencing.heard(context.client, request.broker_id)
        return self._quorum.submit(request, context.version)


def _with_refused(key: int, charge: Charge, decided: Message | None) -> Message:
    """The answer to both parts of a request, with the time to wait."""
    refuse, field = _REFUSED[key]
    rows = [] if decided is None else list(getattr(decided, field))
    answer = decided
    if charge.refused is not None:
        refusal = refuse(charge.refused, KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, _EXCEEDED))
        rows += getattr(refusal, field)
        answer = refusal if answer is None else answer
    assert answer is not None
    return replace(answer, **{field: rows, "throttle_time_ms": round(charge.wait_s * 1000)})


_EXCEEDED = "the client has reached its controller_mutation_rate"
