"""The six roles, and the table of the allowed transitions with their causes.

A role is what a node knows in one epoch besides its log.  Voter and observer are not roles, because the log says
whether a node votes.  `Core.become()` checks `TRANSITIONS` before every change, so no other transition can
happen; the diagram in the documentation is drawn from the table.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from math import inf
from typing import ClassVar, NamedTuple, TypeAlias

from barnabas.model import Endpoint, NodeId, Offset, ReplicaKey
from barnabas.raft.entries import SnapshotId
from barnabas.raft.membership.pending_change import PendingChange
from barnabas.raft.progress import ParkedFetch, Progress
from barnabas.raft.voters import Voter

__all__ = [
    "TRANSITIONS",
    "Candidate",
    "Cause",
    "Follower",
    "Leader",
    "Prospective",
    "Resigned",
    "Role",
    "Transition",
    "Unattached",
]


@dataclass(slots=True)
class Unattached:
    """Knows the epoch, perhaps its leader (not the address), perhaps the candidate that it voted for."""

    name: ClassVar[str] = "unattached"
    deadline: float
    leader_id: NodeId | None = None
    voted: ReplicaKey | None = None


@dataclass(slots=True)
class Prospective:
    """Asks whether an election would succeed, before it disturbs anybody with a new epoch (KIP-996).

    `leader_gone`: the leader said so itself, or its connection broke.  The others may not have noticed
    yet, so a refusal is not final: they are asked again.
    """

    name: ClassVar[str] = "prospective"
    deadline: float
    answers: dict[NodeId, bool]
    leader_id: NodeId | None = None
    endpoints: tuple[Endpoint, ...] = ()
    voted: ReplicaKey | None = None
    leader_gone: bool = False


@dataclass(slots=True)
class Candidate:
    """Stands for election in an epoch of its own making; has voted for itself."""

    name: ClassVar[str] = "candidate"
    deadline: float
    answers: dict[NodeId, bool]


@dataclass(slots=True)
class Download:
    """A snapshot on its way from the leader."""

    snapshot: SnapshotId
    position: int = 0
    size: int = -1
    installing: bool = False


@dataclass(slots=True)
class Follower:
    """Knows the leader of its epoch and fetches from it.

    `leader_lost`: its connection broke (the next good fetch makes up for it).  `leader_ended`: it said
    that it leads no more, for good; an answer that was still under way changes nothing.  `reported`: at
    kraft.version 0, this leader knows our endpoints and versions.
    """

    name: ClassVar[str] = "follower"
    leader_id: NodeId
    endpoints: tuple[Endpoint, ...]
    deadline: float
    voted: ReplicaKey | None = None
    has_fetched: bool = False
    leader_lost: bool = False
    leader_ended: bool = False
    rejoin_at: float = inf
    reported: bool = False
    download: Download | None = None


@dataclass(slots=True)
class Leader:
    """Appends, serves fetches, counts which replica has what.  The only role that changes the voter set.

    `watched`: when the autopilot looked last; `watched_since`: from when on it has looked without a gap;
    `advice`: what it said then.  `noted` is the end of the newest line of the history that this leader appended.
    """

    name: ClassVar[str] = "leader"
    epoch_start: Offset
    quorum_deadline: float
    granting: tuple[NodeId, ...]
    since: float
    voters: dict[ReplicaKey, Progress] = field(default_factory=dict)
    observers: dict[ReplicaKey, Progress] = field(default_factory=dict)
    heard: dict[ReplicaKey, None] = field(default_factory=dict)
    parked: list[ParkedFetch] = field(default_factory=list)
    pending_changes: list[PendingChange] = field(default_factory=list)
    begin_at: float = -inf
    announced: bool = False
    plan_waits: str = ""
    volatile: dict[NodeId, Voter] = field(default_factory=dict)
    watched: float = -inf
    watched_since: float = -inf
    advice: str = ""
    noted: Offset = 0

    def known(self, key: ReplicaKey) -> Progress | None:
        """Return what is known of a replica, voter or observer; None: nothing yet."""
        return self.voters.get(key) or self.observers.get(key)


@dataclass(slots=True)
class Resigned:
    """Led this epoch and does not any more; helps another to the next one.

    `handing_over`: it gave the lead up on purpose, and lets the others stand first.
    """

    name: ClassVar[str] = "resigned"
    deadline: float
    successors: tuple[ReplicaKey, ...] = ()
    waiting_for: dict[NodeId, None] = field(default_factory=dict)
    handing_over: bool = False


Role: TypeAlias = Unattached | Prospective | Candidate | Follower | Leader | Resigned


class Cause(Enum):
    """Why a node changes its role."""

    START = "the node starts"
    HIGHER_EPOCH = "a message of a higher epoch that names no leader"
    LEADER_FOUND = "a message names the leader of its epoch"
    MORE_ENDPOINTS = "a message knows more addresses of the leader"
    ELECTION_TIMEOUT = "the election timer ran out"
    FETCH_TIMEOUT = "the leader was silent for the fetch timeout, or its connection was reset"
    SOLE_VOTER = "nobody else votes"
    VOTE_GRANTED = "it gave its vote to another"
    PRE_VOTE_WON = "a majority would vote for it"
    PRE_VOTE_LOST = "a majority would not vote for it, or the timer ran out"
    PRE_VOTE_UNKNOWN = "a voter does not know pre-votes"
    VOTE_WON = "a majority voted for it"
    QUORUM_LOST = "no majority fetched for 1.5 fetch timeouts"
    STEP_DOWN = "the controller or a shutdown asked it to"
    REMOVED = "its own removal is committed"
    STRANGER = "the leader contradicts what is committed here"
    NEXT_EPOCH = "nobody took over: it opens the next epoch itself"


class Transition(NamedTuple):
    source: str
    target: str
    cause: Cause


def _table() -> frozenset[Transition]:
    rows: list[tuple[str, str, Cause]] = [
        ("unattached", "prospective", Cause.ELECTION_TIMEOUT),
        ("unattached", "prospective", Cause.SOLE_VOTER),
        ("unattached", "unattached", Cause.VOTE_GRANTED),
        ("follower", "prospective", Cause.FETCH_TIMEOUT),
        ("follower", "follower", Cause.MORE_ENDPOINTS),
        ("follower", "unattached", Cause.STRANGER),
        ("prospective", "candidate", Cause.PRE_VOTE_WON),
        ("prospective", "candidate", Cause.PRE_VOTE_UNKNOWN),
        ("prospective", "follower", Cause.PRE_VOTE_LOST),
        ("prospective", "unattached", Cause.PRE_VOTE_LOST),
        ("prospective", "prospective", Cause.VOTE_GRANTED),
        ("candidate", "leader", Cause.VOTE_WON),
        ("candidate", "prospective", Cause.ELECTION_TIMEOUT),
        ("leader", "resigned", Cause.QUORUM_LOST),
        ("leader", "resigned", Cause.STEP_DOWN),
        ("leader", "resigned", Cause.REMOVED),
        ("resigned", "unattached", Cause.NEXT_EPOCH),
    ]
    for source in ("unattached", "prospective", "candidate", "follower", "leader", "resigned"):
        rows.append((source, "unattached", Cause.HIGHER_EPOCH))
        rows.append((source, "follower", Cause.LEADER_FOUND))
    rows += [("", target, Cause.START) for target in ("unattached", "candidate", "follower", "resigned")]
    return frozenset(Transition(*row) for row in rows)


TRANSITIONS = _table()
"""Every (from, to, cause) that may happen; from "" is the start of a node."""
