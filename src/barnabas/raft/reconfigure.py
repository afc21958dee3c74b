"""Changing who votes, one member at a time (KIP-853)."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from barnabas.errors import ErrorCode
from barnabas.model import NodeId, Now
from barnabas.raft.core import Core
from barnabas.raft.messages import ChangeRequest, ChangeResponse, Request, Response
from barnabas.raft.roles import Leader

__all__ = ["Intent"]


@dataclass(slots=True)
class Intent:
    """A wish to change the set, and how far it has come."""

    token: object
    request: ChangeRequest
    deadline: float
    answered: bool = False

    def response(self, error: ErrorCode, reason: str, core: Core) -> Response:
        """What its sender is told."""
        return ChangeResponse(error, reason)

    def describe(self) -> str:
        return ""


def pending_change(core: Core) -> Intent | None:
    return None


def deadline(role: Leader) -> float:
    return inf


def drive(core: Core, role: Leader, now: Now) -> None:
    """Nothing yet."""


def on_request(core: Core, token: object, request: Request, now: Now) -> None:
    core.reply(token, refusal(core, request, ErrorCode.UNSUPPORTED_VERSION))


def on_begin_response(core: Core, node_id: NodeId, request: Request, response: Response) -> None:
    """Nothing yet."""


def on_probe_response(core: Core, node_id: NodeId, response: Response) -> None:
    """Nothing yet."""


def on_failure(core: Core, node_id: NodeId, request: Request, reason: str) -> None:
    """Nothing yet."""


def refusal(core: Core, request: Request, error: ErrorCode) -> Response:
    return ChangeResponse(error, "membership changes are not built yet")
