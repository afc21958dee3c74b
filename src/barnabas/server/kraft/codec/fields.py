"""What all messages between controllers have in common: origin, generation, and the words for nothing."""

from __future__ import annotations

from typing import Any

from barnabas.errors import ErrorCode
from barnabas.model import NO_NODE, ZERO_UUID, Endpoint, ReplicaKey
from barnabas.raft import messages as raft
from barnabas.raft.membership.generation import UNKNOWN
from barnabas.raft.value import altered
from barnabas.wire.codec.message import Message, replace

__all__ = ["CLAIMS", "KRAFT_VERSION", "NOBODY", "NOWHERE", "WHOLE", "code_of", "read", "signed"]

KRAFT_VERSION = "kraft.version"
WHOLE = frozenset({ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.CLUSTER_AUTHORIZATION_FAILED})
"""Errors that concern the request as a whole, not the partition."""
NOBODY = ReplicaKey(NO_NODE, ZERO_UUID)
NOWHERE = Endpoint("", "", 0)


def code_of(number: int) -> ErrorCode:
    """The error with that number; UNKNOWN_SERVER_ERROR for one we do not know."""
    return ErrorCode(number)


def signed(message: Message, said: raft.Request | raft.Response) -> Message:
    """With our quorum's origin, and the newest generation of it that we know of.

    The first generation is said only where it may be over.
    """
    number, origin = getattr(said, "generation", UNKNOWN), getattr(said, "origin", ZERO_UUID)
    if number > 0 or isinstance(said, CLAIMS):
        return replace(message, incarnation=number, origin=origin)
    return replace(message, origin=origin) if origin != ZERO_UUID else message


def read(said: Any, message: Any) -> Any:
    """With the other's origin, and the generation it knows of; UNKNOWN where it should have said and did not."""
    number, origin = getattr(message, "incarnation", UNKNOWN), getattr(message, "origin", ZERO_UUID)
    if number >= 0 or isinstance(said, CLAIMS):
        return altered(said, generation=number, origin=origin)
    return altered(said, origin=origin) if origin != ZERO_UUID else said


CLAIMS = (raft.VoteRequest, raft.BeginQuorumEpochRequest, raft.EndQuorumEpochRequest)
