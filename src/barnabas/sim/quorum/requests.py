"""What travels with a request of the simulated quorum, so that its answer finds the one that waits for it."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from barnabas.model import NodeId
from barnabas.raft.messages import ChangeRequest, Request

__all__ = ["Asker", "ChangeAsked"]


class Asker(NamedTuple):
    """The process that sent a request to another node."""

    node: NodeId
    run_number: int
    correlation: int
    request: Request

    @property
    def by(self) -> str:
        """Say who asks, for the history."""
        return f"node {self.node}"


class ChangeAsked:
    """A request for a change of the voters that reached a node.  `token` is the sender's; `sets` and `notes`
    say how much was committed by then.
    """

    __slots__ = ("answered", "notes", "request", "run_number", "sets", "token")
    by: ClassVar[str] = "an operator"
    """For the history."""

    def __init__(self, token: object, request: ChangeRequest, run_number: int) -> None:
        self.token = token
        self.request = request
        self.run_number = run_number
        self.answered = False
        self.sets = 0
        self.notes = 0

    def __str__(self) -> str:
        what = getattr(self.request, "voter", None) or getattr(self.request, "target", "")
        return f"{type(self.request).__name__} {what}"
