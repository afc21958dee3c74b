"""The vocabulary: everything that can be said to the core, and everything it can ask for.

Three groups.  *Requests and responses* travel between nodes; their fields map one to one to Kafka's
(a field that an old version lacks is None).  *Messages* come from the node's own driver.  *Effects* are
what a step returns: the driver carries them out in three passes, persist, send, apply, and decides
nothing.  All are frozen values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from barnabas.errors import ErrorCode
from barnabas.model import NO_NODE, NO_OFFSET, Endpoint, Epoch, NodeId, Offset, ReplicaKey
from barnabas.raft.entries import Batch, ElectionState, Entry, EpochEnd, SnapshotId
from barnabas.raft.voters import SUPPORTED, VersionRange, VoterSet

HIGH_WATERMARK_NOT_SUPPORTED = 9223372036854775807
"""What a Fetch older than v18 says about the follower's high watermark."""


# ------------------------------------------------------------------ between nodes


@dataclass(frozen=True, slots=True)
class VoteRequest:
    """Vote (52).  `voter` is the addressee as the sender knows it; None: an old version, not said."""

    epoch: Epoch
    candidate: ReplicaKey
    last_epoch: Epoch
    last_offset: Offset
    pre_vote: bool = False
    voter: ReplicaKey | None = None
    cluster_id: str | None = None


@dataclass(frozen=True, slots=True)
class VoteResponse:
    error: ErrorCode
    epoch: Epoch
    leader_id: NodeId = NO_NODE
    granted: bool = False
    endpoints: tuple[Endpoint, ...] = ()


@dataclass(frozen=True, slots=True)
class BeginQuorumEpochRequest:
    """BeginQuorumEpoch (53): "I lead", to voters that do not fetch (and, as a probe, to one who would be)."""

    epoch: Epoch
    leader_id: NodeId
    endpoints: tuple[Endpoint, ...] = ()
    voter: ReplicaKey | None = None
    cluster_id: str | None = None


@dataclass(frozen=True, slots=True)
class BeginQuorumEpochResponse:
    error: ErrorCode
    epoch: Epoch
    leader_id: NodeId = NO_NODE
    endpoints: tuple[Endpoint, ...] = ()


@dataclass(frozen=True, slots=True)
class EndQuorumEpochRequest:
    """EndQuorumEpoch (54): "I lead no more"; who should stand first comes first in `successors`."""

    epoch: Epoch
    leader_id: NodeId
    successors: tuple[ReplicaKey, ...] = ()
    endpoints: tuple[Endpoint, ...] = ()
    cluster_id: str | None = None


@dataclass(frozen=True, slots=True)
class EndQuorumEpochResponse:
    error: ErrorCode
    epoch: Epoch
    leader_id: NodeId = NO_NODE
    endpoints: tuple[Endpoint, ...] = ()


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """Fetch (1) of the metadata partition.  `max_wait` in seconds."""

    epoch: Epoch
    replica: ReplicaKey
    offset: Offset
    last_epoch: Epoch
    high_watermark: Offset = HIGH_WATERMARK_NOT_SUPPORTED
    max_wait: float = 0.5
    max_bytes: int = 1 << 20
    cluster_id: str | None = None


@dataclass(frozen=True, slots=True)
class ReadLog:
    """The driver reads whole batches from `offset` to below `end` into the response, at least one."""

    offset: Offset
    max_bytes: int
    end: Offset


@dataclass(frozen=True, slots=True)
class FetchResponse:
    """Going out, `read` says what the driver fills in; coming in, `batches` holds it."""

    error: ErrorCode
    epoch: Epoch
    leader_id: NodeId = NO_NODE
    endpoints: tuple[Endpoint, ...] = ()
    high_watermark: Offset = NO_OFFSET
    log_start: Offset = NO_OFFSET
    diverging: EpochEnd | None = None
    snapshot: SnapshotId | None = None
    read: ReadLog | None = None
    batches: tuple[Batch, ...] = ()


@dataclass(frozen=True, slots=True)
class FetchSnapshotRequest:
    """FetchSnapshot (59)."""

    epoch: Epoch
    replica: ReplicaKey
    snapshot: SnapshotId
    position: int
    max_bytes: int = 1 << 20
    cluster_id: str | None = None


@dataclass(frozen=True, slots=True)
class ReadSnapshot:
    """The driver reads up to `max_bytes` bytes of the snapshot from `position` into the response."""

    snapshot: SnapshotId
    position: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class FetchSnapshotResponse:
    """Going out, `read` says what the driver fills in; coming in, `data` holds `length` bytes of it."""

    error: ErrorCode
    epoch: Epoch
    leader_id: NodeId = NO_NODE
    endpoints: tuple[Endpoint, ...] = ()
    snapshot: SnapshotId | None = None
    size: int = 0
    position: int = 0
    read: ReadSnapshot | None = None
    data: object = None
    length: int = 0


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """ApiVersions (18): which levels of kraft.version does that node support?  Only ever sent."""


@dataclass(frozen=True, slots=True)
class ProbeResponse:
    """`versions` None: the node does not know kraft.version at all."""

    error: ErrorCode
    versions: VersionRange | None = None


@dataclass(frozen=True, slots=True)
class UpdateVoterRequest:
    """UpdateRaftVoter (82)."""

    epoch: Epoch
    voter: ReplicaKey
    endpoints: tuple[Endpoint, ...]
    versions: VersionRange = SUPPORTED
    cluster_id: str | None = None


@dataclass(frozen=True, slots=True)
class UpdateVoterResponse:
    error: ErrorCode
    epoch: Epoch
    leader_id: NodeId = NO_NODE
    endpoints: tuple[Endpoint, ...] = ()


@dataclass(frozen=True, slots=True)
class AddVoterRequest:
    """AddRaftVoter (80).  `timeout` in seconds; `force` overrides a running target set."""

    voter: ReplicaKey
    endpoints: tuple[Endpoint, ...]
    timeout: float = 30.0
    ack_when_committed: bool = True
    cluster_id: str | None = None
    force: bool = False


@dataclass(frozen=True, slots=True)
class RemoveVoterRequest:
    """RemoveRaftVoter (81).  `force` overrides a running target set."""

    voter: ReplicaKey
    cluster_id: str | None = None
    force: bool = False


@dataclass(frozen=True, slots=True)
class UpgradeRequest:
    """The part of UpdateFeatures (57) that concerns kraft.version."""

    version: int
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class ReassignRequest:
    """KIP-642: the voter set to reach, by ids; None cancels.

    `endpoints` are those of all registered controllers, by id: what a Fetch does not tell the leader.
    """

    target: tuple[NodeId, ...] | None
    endpoints: tuple[tuple[NodeId, tuple[Endpoint, ...]], ...] = ()
    timeout: float = 30.0
    cluster_id: str | None = None


@dataclass(frozen=True, slots=True)
class CancelChangeRequest:
    """Withdraw the waiting change of this replica, if its record is not appended yet."""

    voter: ReplicaKey


@dataclass(frozen=True, slots=True)
class ChangeResponse:
    """The answer to every wish to change the set: an error and a sentence for an operator."""

    error: ErrorCode
    message: str | None = None


PeerRequest: TypeAlias = (
    VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | FetchRequest
    | FetchSnapshotRequest
    | UpdateVoterRequest
)
ChangeRequest: TypeAlias = (
    AddVoterRequest | RemoveVoterRequest | UpgradeRequest | ReassignRequest | CancelChangeRequest
)
Request: TypeAlias = PeerRequest | ChangeRequest | ProbeRequest
QuorumResponse: TypeAlias = (
    VoteResponse
    | BeginQuorumEpochResponse
    | EndQuorumEpochResponse
    | FetchResponse
    | FetchSnapshotResponse
    | UpdateVoterResponse
)
Response: TypeAlias = QuorumResponse | ProbeResponse | ChangeResponse


# ------------------------------------------------------------------ from the node's own driver


@dataclass(frozen=True, slots=True)
class Started:
    """The first message of a node's life."""


@dataclass(frozen=True, slots=True)
class Tick:
    """`next_deadline()` has come (or any other time: a tick too many does nothing)."""


@dataclass(frozen=True, slots=True)
class Received:
    """A request came in.  `token` is anything; exactly one Reply brings it back."""

    token: object
    request: Request


@dataclass(frozen=True, slots=True)
class Answered:
    """The response to the Send with this correlation."""

    correlation: int
    response: Response


@dataclass(frozen=True, slots=True)
class Failed:
    """A Send that got no response.  `unsupported`: the peer does not know that version."""

    correlation: int
    reason: str = ""
    unsupported: bool = False


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The connection to or from this node was reset (not: closed in order, not: silent)."""

    node_id: NodeId


class SyncTicket(NamedTuple):
    """What a sync that begins now will have made durable: the log's end, and how often it was cut before."""

    end_offset: Offset
    cut: int


@dataclass(frozen=True, slots=True)
class Persisted:
    """A sync that began with this ticket is done.  One from before a truncation says nothing any more."""

    end_offset: Offset
    cut: int


@dataclass(frozen=True, slots=True)
class ElectionSaved:
    """The SaveElection with this serial is durable."""

    serial: int


@dataclass(frozen=True, slots=True)
class Propose:
    """The active controller appends: one batch.  Answered by Accepted or Refused."""

    token: object
    epoch: Epoch
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class SnapshotTaken:
    """A local snapshot is frozen on disk.  `size` in bytes."""

    snapshot: SnapshotId
    size: int


@dataclass(frozen=True, slots=True)
class LogStartMoved:
    """The log was cut in front, up to the end of a snapshot."""

    log_start: Offset


@dataclass(frozen=True, slots=True)
class SnapshotInstalled:
    """InstallSnapshot is done; the entries that the quorum reads in it, in order."""

    snapshot: SnapshotId
    size: int
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Resign:
    """The active controller steps down from leading this epoch."""

    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Shutdown:
    """Leave in order.  A leader hands over first, for at most `timeout` seconds."""

    timeout: float = 5.0


Message: TypeAlias = (
    Started
    | Tick
    | Received
    | Answered
    | Failed
    | Disconnected
    | Persisted
    | ElectionSaved
    | Propose
    | SnapshotTaken
    | LogStartMoved
    | SnapshotInstalled
    | Resign
    | Shutdown
)


# ------------------------------------------------------------------ effects, pass 1: persist


@dataclass(frozen=True, slots=True)
class Append:
    """Write this batch at the end of the log (its base offset is the end)."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class Truncate:
    """Forget everything from this offset on."""

    end_offset: Offset


@dataclass(frozen=True, slots=True)
class SaveElection:
    """Make this durable and say ElectionSaved(serial).  `kraft_version` chooses the file's version."""

    serial: int
    state: ElectionState
    kraft_version: int


@dataclass(frozen=True, slots=True)
class WriteSnapshot:
    """Append a downloaded piece to the partial snapshot; position 0 begins it anew."""

    snapshot: SnapshotId
    position: int
    data: object


@dataclass(frozen=True, slots=True)
class InstallSnapshot:
    """Freeze the downloaded snapshot, begin the log anew at its end, say SnapshotInstalled."""

    snapshot: SnapshotId
    size: int


# ------------------------------------------------------------------ effects, pass 2: send


@dataclass(frozen=True, slots=True)
class Send:
    """Send to a node; a negative `to` is a bootstrap server.  Answered or Failed ends it."""

    correlation: int
    to: NodeId
    endpoint: Endpoint | None
    request: Request


@dataclass(frozen=True, slots=True)
class Reply:
    token: object
    response: Response


# ------------------------------------------------------------------ effects, pass 3: apply


@dataclass(frozen=True, slots=True)
class Accepted:
    """A Propose stands in the log, not committed."""

    token: object
    base_offset: Offset
    last_offset: Offset
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Refused:
    """A Propose was not appended."""

    token: object
    error: ErrorCode
    message: str = ""


@dataclass(frozen=True, slots=True)
class Committed:
    """Everything below is decided for good: apply it."""

    high_watermark: Offset


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """Who leads.  Of this node itself only after an entry of its epoch is committed."""

    epoch: Epoch
    leader_id: NodeId | None
    endpoints: tuple[Endpoint, ...] = ()


@dataclass(frozen=True, slots=True)
class VotersChanged:
    """The set in force is another (appended, reverted or loaded)."""

    voters: VoterSet
    offset: Offset


@dataclass(frozen=True, slots=True)
class KraftVersionChanged:
    version: int


@dataclass(frozen=True, slots=True)
class Event:
    """Something an operator may want to read: a name of the catalogue and its fields."""

    name: str
    fields: tuple[tuple[str, object], ...] = field(default=())

    def __str__(self) -> str:
        return " ".join([self.name, *(f"{key}={value}" for key, value in self.fields)])


@dataclass(frozen=True, slots=True)
class Stopped:
    """A Shutdown is done: `handed_over` False means the time was up."""

    handed_over: bool


PersistEffect: TypeAlias = Append | Truncate | SaveElection | WriteSnapshot | InstallSnapshot
SendEffect: TypeAlias = Send | Reply
ApplyEffect: TypeAlias = (
    Accepted | Refused | Committed | LeaderChanged | VotersChanged | KraftVersionChanged | Event | Stopped
)
Effect: TypeAlias = PersistEffect | SendEffect | ApplyEffect
