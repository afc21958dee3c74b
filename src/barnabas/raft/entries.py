"""The entries of the log, as far as the quorum needs them.

The core knows five kinds of entries.  Three are its own (the leader, the voters, the protocol version), one is
a note that it keeps in the metadata log for itself.  Everything else is opaque: the core counts it and passes
it through the effects unchanged.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from barnabas.model import NO_NODE, ZERO_UUID, Epoch, NodeId, Offset, ReplicaKey, Uuid
from barnabas.raft.value import value
from barnabas.raft.voters import VoterSet

__all__ = [
    "Batch",
    "ElectionState",
    "Entry",
    "EpochEnd",
    "KraftVersionEntry",
    "LeaderChange",
    "Note",
    "Opaque",
    "SnapshotId",
    "SyncedEnd",
    "VotersEntry",
    "count",
]


class SnapshotId(NamedTuple):
    """A snapshot: it holds everything below `end_offset`; `epoch` is that of the last record in it."""

    end_offset: Offset
    epoch: Epoch

    def __str__(self) -> str:
        return f"{self.end_offset}-{self.epoch}"


BOOTSTRAP = SnapshotId(0, 0)
"""The local snapshot that `storage format` writes with the first voters; it is never replicated."""


class EpochEnd(NamedTuple):
    """An epoch and the offset after its last record."""

    epoch: Epoch
    end_offset: Offset


class SyncedEnd(NamedTuple):
    """Where a log ended when it was synced, in Raft's order of logs, and how many voters its set had there."""

    epoch: Epoch = 0
    end_offset: Offset = 0
    voters: int = 0

    @property
    def end(self) -> tuple[Epoch, Offset]:
        """What a vote compares."""
        return self.epoch, self.end_offset


@value
class LeaderChange:
    """A leader took over: the first entry of its epoch."""

    leader_id: NodeId
    voters: tuple[NodeId, ...] = ()
    granting: tuple[NodeId, ...] = ()

    def __str__(self) -> str:
        return f"leader{{{self.leader_id}}}"


@value
class VotersEntry:
    """The whole voter set, in force from the moment it is appended."""

    voters: VoterSet

    def __str__(self) -> str:
        return f"voters{{{' '.join(str(i) for i in self.voters.ids)}}}"


@value
class KraftVersionEntry:
    """The level of the feature kraft.version: 0 static voters, 1 voters that change."""

    version: int

    def __str__(self) -> str:
        return f"kraft-version{{{self.version}}}"


@value
class Note:
    """A fact that the quorum keeps for itself in the metadata log; `value` None erases it."""

    key: str
    value: str | None

    def __str__(self) -> str:
        return f"{self.key}{{{'' if self.value is None else self.value}}}"


@value
class Opaque:
    """`count` records that mean nothing here.  `size` in bytes where known (0: unknown)."""

    payload: object
    count: int = 1
    size: int = 0

    def __str__(self) -> str:
        return f"{self.count} records" if self.count != 1 else "1 record"


Entry: TypeAlias = LeaderChange | VotersEntry | KraftVersionEntry | Note | Opaque


def count(entries: tuple[Entry, ...]) -> int:
    """How many offsets these entries take."""
    return sum(entry.count if isinstance(entry, Opaque) else 1 for entry in entries)


@value
class Batch:
    """One record batch: entries of one epoch at consecutive offsets.

    `raw` holds the bytes of a batch that came from a leader or a log (a follower writes them as they
    are); None says that the batch was made here and the driver encodes it.
    """

    base_offset: Offset
    epoch: Epoch
    entries: tuple[Entry, ...]
    raw: object = None

    @property
    def count(self) -> int:
        return count(self.entries)

    @property
    def last_offset(self) -> Offset:
        return self.base_offset + self.count - 1

    @property
    def end_offset(self) -> Offset:
        return self.base_offset + self.count

    def __str__(self) -> str:
        return f"{' '.join(str(entry) for entry in self.entries)} @{self.base_offset}"


@value
class ElectionState:
    """What a node must never forget (file `quorum-state`): its epoch, that epoch's leader, its own vote.

    And the newest generation of the quorum that it has heard of, and the quorum's origin (zero: unknown).
    """

    epoch: Epoch = 0
    leader_id: NodeId = NO_NODE
    voted: ReplicaKey | None = None
    generation: int = 0
    origin: Uuid = ZERO_UUID

    def forgets(self, voted: Epoch) -> bool:
        """Whether this is older than a vote in that epoch.  (With a leader known, no vote is given any more.)"""
        undecided = self.voted is None and self.leader_id == NO_NODE
        return self.epoch < voted or (self.epoch == voted and undecided)

    def __str__(self) -> str:
        leader = "" if self.leader_id == NO_NODE else f" leader {self.leader_id}"
        return f"epoch {self.epoch}{leader}{'' if self.voted is None else f' voted {self.voted.id}'}"
