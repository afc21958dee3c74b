"""What nodes of other quorum generations say: what is believed, what is refused, and which node must stop.

`membership/generation` says what a generation is, and how this protects the quorum that was formed last.
"""

from __future__ import annotations

from typing import TypeVar

from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import NodeId, Now
from barnabas.raft import leadership
from barnabas.raft.core import Core
from barnabas.raft.entries import EpochEnd, SnapshotId
from barnabas.raft.membership.generation import UNKNOWN
from barnabas.raft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    Request,
    Response,
    VoteRequest,
)
from barnabas.raft.roles import Cause, Leader
from barnabas.raft.value import altered

__all__ = ["believed", "foreign", "hear", "is_stale", "left_behind", "number_of"]

MOST_MISSED = 100
"""Recoveries by force that a node can have missed.  A message of more is not believed: a generation never
goes back, and a node that waits for one that is not there never stands again."""

Said = TypeVar("Said", bound=Request | Response)


def number_of(said: Request | Response) -> int:
    """The generation that a message names."""
    number: int = getattr(said, "generation", UNKNOWN)
    return number


def believed(core: Core, said: Said) -> Said:
    """The message, without its generation where that is impossibly new."""
    number = number_of(said)
    if number - core.known_generation <= MOST_MISSED:
        return said
    core.emit("raft.incarnation.unbelievable", incarnation=number, own=core.known_generation)
    return altered(said, generation=UNKNOWN)


def hear(core: Core, number: int, now: Now) -> None:
    """Take note of a generation that another node knows: if it is newer, ours is superseded."""
    if number <= core.known_generation:
        return
    core.superseded = number
    core.emit("raft.incarnation.superseded", own=core.generation.number, other=number)
    core.save_election()
    if isinstance(core.role, Leader):
        leadership.resign(core, core.role, Cause.STEP_DOWN, now)


def is_stale(core: Core, request: Request) -> bool:
    """Whether this request comes from a superseded generation: it changes nothing here."""
    if not isinstance(request, (VoteRequest, BeginQuorumEpochRequest, EndQuorumEpochRequest)):
        return False
    known = core.known_generation
    if known == 0:
        return False
    stale = 0 <= request.generation < known
    if isinstance(request, VoteRequest) and request.generation < 0:
        stale = request.last_epoch < core.generation.epoch
    if stale:
        who = request.candidate.id if isinstance(request, VoteRequest) else request.leader_id
        core.emit(
            "raft.incarnation.refused",
            what=type(request).__name__.removesuffix("Request"),
            node=who,
            incarnation=request.generation,
            own=known,
        )
    return stale


def foreign(core: Core, request: FetchRequest, said: EpochEnd | SnapshotId | None) -> ErrorCode | None:
    """Why the leader refuses a replica whose log has something that this generation never had."""
    own = core.generation
    if own.number == 0 or request.last_epoch >= own.epoch or core.voters.has(request.replica):
        return None
    if request.offset <= own.offset and not isinstance(said, EpochEnd):
        return None
    core.emit(
        "raft.incarnation.foreign",
        node=request.replica.id,
        directory=str(request.replica.directory_id),
        end_offset=request.offset,
        last_epoch=request.last_epoch,
        own=own.number,
    )
    return ErrorCode.INCONSISTENT_VOTER_SET


def left_behind(core: Core, leader: NodeId, response: FetchResponse) -> KafkaError:
    """The error that stops such a replica once the leader has refused it."""
    return KafkaError(
        ErrorCode.INCONSISTENT_VOTER_SET,
        f"this directory is of incarnation {core.generation.number} of the quorum, which was put together "
        f"anew by force: node {leader} leads incarnation {response.generation} and lacks records that are "
        f"here (up to offset {core.log_view.end_offset})",
        next_step="keep a copy of the directory; format an empty one with --no-initial-controllers and let "
        "this node join as a new one (of a broker, __cluster_metadata-0 alone can go)",
    )
