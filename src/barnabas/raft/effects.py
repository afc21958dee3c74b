"""The effects of the core: everything that a step can ask for.

The driver carries them out in three passes (persist, send, apply) and decides nothing.  All are frozen values.
"""

from __future__ import annotations

from typing import TypeAlias

from barnabas.errors import ErrorCode
from barnabas.model import Endpoint, Epoch, NodeId, Offset
from barnabas.raft.discovery.book import Contact
from barnabas.raft.entries import Batch, ElectionState, SnapshotId
from barnabas.raft.messages import FetchResponse, Request, Response
from barnabas.raft.value import altered, value
from barnabas.raft.voters import VoterSet

# ------------------------------------------------------------------ pass 1: persist


@value
class Append:
    """Write this batch at the end of the log (its base offset is the end)."""

    batch: Batch


@value
class Truncate:
    """Forget everything from this offset on."""

    end_offset: Offset


@value
class SaveElection:
    """Make this durable and say ElectionSaved(serial).  `kraft_version` chooses the file's version."""

    serial: int
    state: ElectionState
    kraft_version: int


@value
class WriteSnapshot:
    """Append a downloaded piece to the partial snapshot; position 0 begins it anew."""

    snapshot: SnapshotId
    position: int
    data: object


@value
class InstallSnapshot:
    """Freeze the downloaded snapshot, begin the log anew at its end, say SnapshotInstalled.

    Or find that it cannot be read, throw it away, and say SnapshotRejected.
    """

    snapshot: SnapshotId
    size: int


@value
class SaveBook:
    """Write the address book down, some time: nothing waits for it."""

    contacts: tuple[Contact, ...]


# ------------------------------------------------------------------ pass 2: send


@value
class Send:
    """Send to a node; a negative `to` is a bootstrap server.  Answered or Failed ends it."""

    correlation: int
    to: NodeId
    endpoint: Endpoint | None
    request: Request


@value
class Reply:
    token: object
    response: Response

    def without_records(self) -> Reply:
        """The answer when the log has changed while it waited, and must not be read for it."""
        if isinstance(self.response, FetchResponse) and self.response.read is not None:
            return Reply(self.token, altered(self.response, read=None))
        return self


# ------------------------------------------------------------------ pass 3: apply


@value
class Accepted:
    """A Propose stands in the log, not committed."""

    token: object
    base_offset: Offset
    last_offset: Offset
    epoch: Epoch


@value
class Refused:
    """A Propose was not appended."""

    token: object
    error: ErrorCode
    message: str = ""


@value
class Committed:
    """Everything below is decided for good: apply it."""

    high_watermark: Offset


@value
class LeaderChanged:
    """The leader.  This node itself only after an entry of its epoch is committed."""

    epoch: Epoch
    leader_id: NodeId | None
    endpoints: tuple[Endpoint, ...] = ()


@value
class VotersChanged:
    """The set in force is another (appended, reverted or loaded)."""

    voters: VoterSet
    offset: Offset


@value
class KraftVersionChanged:
    version: int


@value
class Event:
    """Something an operator may want to read: a name of the catalogue and its fields."""

    name: str
    fields: tuple[tuple[str, object], ...] = ()

    def __str__(self) -> str:
        return " ".join([self.name, *(f"{key}={value}" for key, value in self.fields)])


@value
class Stopped:
    """A Shutdown is done: `handed_over` False means the time was up."""

    handed_over: bool


PersistEffect: TypeAlias = Append | Truncate | SaveElection | WriteSnapshot | InstallSnapshot | SaveBook
SendEffect: TypeAlias = Send | Reply
ApplyEffect: TypeAlias = (
    Accepted | Refused | Committed | LeaderChanged | VotersChanged | KraftVersionChanged | Event | Stopped
)
Effect: TypeAlias = PersistEffect | SendEffect | ApplyEffect
