"""The messages of the core: everything that it can receive.

There are two groups.  *Requests and responses* travel between nodes.  Their fields map one to one to Kafka's
(None for a field that an old version lacks), except `generation`, `origin` and a Fetch's `can_vote`, which only
our nodes send (see `raft.membership.generation`; -1: not sent; and `raft.identity.origin`; zero: not known).
*Messages* come from the node's own driver.  What a step returns stands in `effects`.  All are frozen values.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from barnabas.errors import ErrorCode
from barnabas.model import NO_NODE, NO_OFFSET, ZERO_UUID, Endpoint, Epoch, NodeId, Offset, ReplicaKey, Uuid
from barnabas.raft.discovery.book import Contact
from barnabas.raft.entries import Batch, Entry, EpochEnd, SnapshotId
from barnabas.raft.value import value
from barnabas.raft.voters import SUPPORTED, VersionRange

HIGH_WATERMARK_NOT_SUPPORTED = 9223372036854775807
"""What a Fetch older than v18 says about the follower's high watermark."""


# ------------------------------------------------------------------ between nodes


@value
class VoteRequest:
    """Vote (52).  `voter` is the addressee as the sender knows it; None: an old version, not said."""

    epoch: Epoch
    candidate: ReplicaKey
    last_epoch: Epoch
    last_offset: Offset
    pre_vote: bool = False
    voter: ReplicaKey | None = None
    cluster_id: str | None = None
    generation: int = 0
    origin: Uuid = ZERO_UUID


@value
class VoteResponse:
    error: ErrorCode
    epoch: Epoch
    leader_id: NodeId = NO_NODE
    granted: bool = False
    endpoints: tuple[Endpoint, ...] = ()
    generation: int = 0
    origin: Uuid = ZERO_UUID


@value
class BeginQuorumEpochRequest:
    """BeginQuorumEpoch (53): "I lead", to voters that do not fetch (and, as a probe, to one who would be)."""

    epoch: Epoch
    leader_id: NodeId
    endpoints: tuple[Endpoint, ...] = ()
    voter: ReplicaKey | None = None
    cluster_id: str | None = None
    generation: int = 0
    origin: Uuid = ZERO_UUID


@value
class BeginQuorumEpochResponse:
    error: ErrorCode
    epoch: Epoch
    leader_id: NodeId = NO_NODE
    endpoints: tuple[Endpoint, ...] = ()
    generation: int = 0
    origin: Uuid = ZERO_UUID


@value
class EndQuorumEpochRequest:
    """EndQuorumEpoch (54): "I no longer lead"; the first of `successors` should stand first."""

    epoch: Epoch
    leader_id: NodeId
    successors: tuple[ReplicaKey, ...] = ()
    endpoints: tuple[Endpoint, ...] = ()
    cluster_id: str | None = None
    generation: int = 0
    origin: Uuid = ZERO_UUID


@value
class EndQuorumEpochResponse:
    error: ErrorCode
    epoch: Epoch
    leader_id: NodeId = NO_NODE
    endpoints: tuple[Endpoint, ...] = ()
    generation: int = 0
    origin: Uuid = ZERO_UUID


@value
class FetchRequest:
    """Fetch (1) of the metadata partition.  `max_wait` in seconds.

    `can_vote` False: its node runs without the controller role.  Only our nodes say so.
    """

    epoch: Epoch
    replica: ReplicaKey
    offset: Offset
    last_epoch: Epoch
    high_watermark: Offset = HIGH_WATERMARK_NOT_SUPPORTED
    max_wait: float = 0.5
    max_bytes: int = 1 << 20
    cluster_id: str | None = None
    can_vote: bool = True
    generation: int = 0
    origin: Uuid = ZERO_UUID


@value
class ReadLog:
    """The driver reads whole batches from `offset` to below `end` into the response, at least one."""

    offset: Offset
    max_bytes: int
    end: Offset


@value
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
    generation: int = 0
    origin: Uuid = ZERO_UUID


@value
class FetchSnapshotRequest:
    """FetchSnapshot (59)."""

    epoch: Epoch
    replica: ReplicaKey
    snapshot: SnapshotId
    position: int
    max_bytes: int = 1 << 20
    cluster_id: str | None = None
    generation: int = 0
    origin: Uuid = ZERO_UUID


@value
class ReadSnapshot:
    """The driver reads up to `max_bytes` bytes of the snapshot from `position` into the response."""

    snapshot: SnapshotId
    position: int
    max_bytes: int


@value
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
    generation: int = 0
    origin: Uuid = ZERO_UUID


@value
class ProbeRequest:
    """ApiVersions (18): which levels of kraft.version does that node support?  Only ever sent."""


@value
class ProbeResponse:
    """`versions` None: the node does not know kraft.version at all; `features` are its other ranges, by name."""

    error: ErrorCode
    versions: VersionRange | None = None
    features: tuple[tuple[str, int, int], ...] = ()


@value
class UpdateVoterRequest:
    """UpdateRaftVoter (82)."""

    epoch: Epoch
    voter: ReplicaKey
    endpoints: tuple[Endpoint, ...]
    versions: VersionRange = SUPPORTED
    cluster_id: str | None = None


@value
class UpdateVoterResponse:
    error: ErrorCode
    epoch: Epoch
    leader_id: NodeId = NO_NODE
    endpoints: tuple[Endpoint, ...] = ()


@value
class AddVoterRequest:
    """AddRaftVoter (80).  `timeout` in seconds; `force` overrides a running target set."""

    voter: ReplicaKey
    endpoints: tuple[Endpoint, ...]
    timeout: float = 30.0
    ack_when_committed: bool = True
    cluster_id: str | None = None
    force: bool = False


@value
class RemoveVoterRequest:
    """RemoveRaftVoter (81).  `force` overrides a running target set."""

    voter: ReplicaKey
    cluster_id: str | None = None
    force: bool = False


@value
class UpgradeRequest:
    """The part of UpdateFeatures (57) that concerns kraft.version."""

    version: int
    validate_only: bool = False


@value
class ReassignRequest:
    """KIP-642: the voter set to reach, by ids; None cancels.

    `endpoints` are those of all registered controllers, by id: what a Fetch does not tell the leader.
    """

    target: tuple[NodeId, ...] | None
    endpoints: tuple[tuple[NodeId, tuple[Endpoint, ...]], ...] = ()
    timeout: float = 30.0
    cluster_id: str | None = None


@value
class ExchangeRequest:
    """ExchangeEndpoints (a request of ours): where the controllers listen, as the sender has heard."""

    replica: ReplicaKey
    contacts: tuple[Contact, ...] = ()
    cluster_id: str | None = None
    generation: int = 0
    origin: Uuid = ZERO_UUID


@value
class ExchangeResponse:
    error: ErrorCode
    contacts: tuple[Contact, ...] = ()
    generation: int = 0
    origin: Uuid = ZERO_UUID


@value
class TransferRequest:
    """Hand the lead of the quorum to this voter; None: to the one that has most.

    `force` takes a successor that lags, and lets go of changes that wait.
    """

    to: NodeId | None = None
    timeout: float = 10.0
    cluster_id: str | None = None
    force: bool = False


@value
class CancelChangeRequest:
    """Withdraw the waiting change of this replica, if its record is not appended yet."""

    voter: ReplicaKey


@value
class ChangeResponse:
    """The answer to every request to change the set: an error and a sentence for an operator."""

    error: ErrorCode
    message: str | None = None


PeerRequest: TypeAlias = (
    VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | FetchRequest
    | FetchSnapshotRequest
    | UpdateVoterRequest
    | ExchangeRequest
)
ChangeRequest: TypeAlias = (
    AddVoterRequest
    | RemoveVoterRequest
    | UpgradeRequest
    | ReassignRequest
    | TransferRequest
    | CancelChangeRequest
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
Response: TypeAlias = QuorumResponse | ProbeResponse | ChangeResponse | ExchangeResponse


# ------------------------------------------------------------------ from the node's own driver


@value
class Started:
    """The first message that a node takes."""


@value
class Tick:
    """`next_deadline()` has come (or any other time: a tick too many does nothing)."""


@value
class Received:
    """A request came in.  `token` is anything; exactly one Reply brings it back."""

    token: object
    request: Request


@value
class Answered:
    """The response to the Send with this correlation."""

    correlation: int
    response: Response


@value
class Failed:
    """A Send that got no response of use.

    `unsupported`: the peer does not know that version.  `another_cluster`: it is of another one.
    """

    correlation: int
    reason: str = ""
    unsupported: bool = False
    another_cluster: bool = False


@value
class Disconnected:
    """The connection to or from this node was reset (not: closed cleanly, not: silent)."""

    node_id: NodeId
    reason: str = "connection reset"


class SyncTicket(NamedTuple):
    """What a sync that begins now will have made durable: the log's end, and how often it was cut before."""

    end_offset: Offset
    cut: int


@value
class Persisted:
    """A sync that began with this ticket is done.  One from before a truncation says nothing any more."""

    end_offset: Offset
    cut: int


@value
class ElectionSaved:
    """The SaveElection with this serial is durable."""

    serial: int


@value
class Propose:
    """The active controller appends: one batch.  Answered by Accepted or Refused."""

    token: object
    epoch: Epoch
    entries: tuple[Entry, ...]


@value
class SnapshotTaken:
    """A local snapshot is frozen on disk.  `size` in bytes."""

    snapshot: SnapshotId
    size: int


@value
class LogStartMoved:
    """The log was cut in front, up to the end of a snapshot."""

    log_start: Offset


@value
class SnapshotInstalled:
    """InstallSnapshot is done; the entries that the quorum reads in it, in order."""

    snapshot: SnapshotId
    size: int
    entries: tuple[Entry, ...]


@value
class SnapshotRejected:
    """InstallSnapshot is not done: what was downloaded cannot be read.  It is gone; the log is as it was."""

    snapshot: SnapshotId
    reason: str = ""


@value
class Supervise:
    """The autopilot is to look at the quorum (`membership.autopilot`); a node that does not lead does nothing.

    `size`: as many voters as there should be.  Seconds: a standby must have kept up for `stability`, a voter is
    given up that was silent for `dead`; the next look comes after `interval`.  `standbys`: the controllers that
    may become voters, and where they listen.  `dry_run`: only say what would be done.
    """

    size: int
    stability: float
    dead: float
    interval: float
    standbys: tuple[tuple[NodeId, tuple[Endpoint, ...]], ...]
    dry_run: bool = False


@value
class Resign:
    """The active controller steps down from leading this epoch."""

    epoch: Epoch


@value
class Shutdown:
    """Leave cleanly.  A leader hands over first, for at most `timeout` seconds."""

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
    | SnapshotRejected
    | Resign
    | Supervise
    | Shutdown
)
