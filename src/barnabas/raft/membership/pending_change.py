"""One requested change of the voter set, from the request to the answer, and what a step of it comes to."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple, TypeAlias

from barnabas.model import Offset, ReplicaKey
from barnabas.raft.messages import (
    AddVoterRequest,
    ChangeRequest,
    ReassignRequest,
    RemoveVoterRequest,
    TransferRequest,
    UpgradeRequest,
)
from barnabas.raft.voters import VersionRange

__all__ = ["DONE", "Appended", "Done", "HandOver", "NotYet", "Outcome", "PendingChange", "Probe"]


class NotYet(NamedTuple):
    """The next step cannot be taken yet; `reason` says why, in words that an operator can read.

    `until`: then the answer is another one, even if nothing comes in before (monotonic seconds).
    """

    reason: str
    until: float = inf

    def __str__(self) -> str:
        return self.reason


class Appended(NamedTuple):
    """The record of the change stands in the log at this offset; it is not committed yet."""

    offset: Offset


class Done(NamedTuple):
    """There is nothing to append: what was asked for is so already."""


DONE = Done()


class HandOver(NamedTuple):
    """The leader steps down now, and this voter stands for election first."""

    successor: ReplicaKey


Outcome: TypeAlias = NotYet | Appended | Done | HandOver


@dataclass(slots=True)
class Probe:
    """What we found out about a voter-to-be at the address it wants to be known by."""

    versions: VersionRange | None = None
    features: tuple[tuple[str, int, int], ...] = ()
    is_who_it_says: bool = False
    failure: str = ""


@dataclass(slots=True)
class PendingChange:
    """`offset` is where its record stands once appended; `waits` says for what, before.

    `planned`: a step of the way to a target set, planned by the leader itself; nobody waits for an answer.
    `look_at`: when its step is to be tried again at the latest.
    """

    token: object
    request: ChangeRequest
    deadline: float
    probe: Probe = field(default_factory=Probe)
    offset: Offset | None = None
    answered: bool = False
    waits: str = "it had no time to begin"
    planned: bool = False
    began: float = 0.0
    has_waited: bool = False
    look_at: float = inf

    def __str__(self) -> str:
        request = self.request
        if isinstance(request, AddVoterRequest):
            return f"add {request.voter}"
        if isinstance(request, RemoveVoterRequest):
            return f"remove {request.voter}"
        if isinstance(request, ReassignRequest):
            return "cancel the target" if request.target is None else f"reassign to {request.target}"
        if isinstance(request, TransferRequest):
            return "transfer the lead" if request.to is None else f"transfer the lead to {request.to}"
        if isinstance(request, UpgradeRequest):
            return f"upgrade kraft.version to {request.version}"
        return type(request).__name__.removesuffix("Request").lower()

    def describe(self) -> str:
        """For DescribeQuorum: the change and what it waits for."""
        if self.offset is not None:
            return f"{self}: appended at offset {self.offset}, not committed yet"
        return f"{self}: {self.waits}"
