"""Finding the broker that coordinates a group or a transactional id (FindCoordinator)."""

from __future__ import annotations

from typing import Any

from barnabas.client.connection import first_of
from barnabas.client.metadata import Broker
from barnabas.client.security.rights import granting
from barnabas.errors import ErrorCode, KafkaError
from barnabas.wire.schemas.groups import FindCoordinatorRequest

__all__ = [
    "coordinator_request",
    "found_coordinator",
    "from_an_old_coordinator",
    "may_be_old",
    "raise_for",
]

_SEVERAL_SINCE = 4
_LOADS = (
    "wait longer (--timeout 120); if it does not end, that broker's log says why: a broker of Apache Kafka ends at"
    " `number of partitions has changed`, and reads on after a restart"
)
_OF_A_REBALANCE = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.MEMBER_ID_REQUIRED)
"""Errors that members hear in every rebalance, from coordinators that are well."""


def coordinator_request(key: str, transaction: bool, version: int) -> FindCoordinatorRequest:
    """The request for the coordinator of a group, or of a transactional id."""
    several = version >= _SEVERAL_SINCE
    return FindCoordinatorRequest(
        key="" if several else key, key_type=int(transaction), coordinator_keys=[key] if several else []
    )


def may_be_old(error: KafkaError) -> bool:
    """Return whether a coordinator that is cut off could have refused what the new one would take."""
    return not error.code.retriable and error.code not in _OF_A_REBALANCE


def from_an_old_coordinator(error: KafkaError) -> KafkaError:
    """Return what a refusal comes to whose sender is out: another coordinator has to be asked."""
    return KafkaError(ErrorCode.NOT_COORDINATOR, f"a coordinator that is out refused: {error.message}")


def found_coordinator(response: Any, version: int, key: str, *, transaction: bool) -> Broker:
    """The broker that an answer names as the coordinator of `key`.  Raises KafkaError."""
    found = first_of(response.coordinators, "the coordinator") if version >= _SEVERAL_SINCE else response
    if found.error_code:
        code = ErrorCode(found.error_code)
        said = found.error_message or "refused"
        whom = f"transactional id {key}" if transaction else f"group {key}"
        raise KafkaError(
            code, f"finding the coordinator of {whom}: {said}", next_step=granting(code, "Describe", key)
        )
    return Broker(found.node_id, found.host, found.port)


def raise_for(code: int, what: str) -> None:
    """Raise the KafkaError of an answer about groups or transactions; nothing for code 0."""
    if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        raise KafkaError(ErrorCode(code), f"{what}: it still reads its coordinators' log", next_step=_LOADS)
    if code:
        raise KafkaError(ErrorCode(code), what)
