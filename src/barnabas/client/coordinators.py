"""Finding the broker that coordinates a group or a transactional id (FindCoordinator)."""

from __future__ import annotations

from typing import Any

from barnabas.client.connection import first_of
from barnabas.client.metadata import Broker
from barnabas.errors import ErrorCode, KafkaError
from barnabas.wire.schemas.groups import FindCoordinatorRequest

__all__ = ["coordinator_request", "found_coordinator"]

_SEVERAL_SINCE = 4


def coordinator_request(key: str, transaction: bool, version: int) -> FindCoordinatorRequest:
    """The request for the coordinator of a group, or of a transactional id."""
    several = version >= _SEVERAL_SINCE
    return FindCoordinatorRequest(
        key="" if several else key, key_type=int(transaction), coordinator_keys=[key] if several else []
    )


def found_coordinator(response: Any, version: int) -> Broker:
    """The broker that an answer names.  Raises KafkaError."""
    found = first_of(response.coordinators, "the coordinator") if version >= _SEVERAL_SINCE else response
    if found.error_code:
        raise KafkaError(ErrorCode(found.error_code), found.error_message or None)
    return Broker(found.node_id, found.host, found.port)
