"""Who votes: a value that never changes.

A voter set is replaced, never edited: `with_voter()` and its sisters give another set, so that every
offset of the log can keep the set that counted there, and a truncation simply goes back to an older value.
Two sets that differ in one key always share a member of each other's majorities; that is all the safety
argument of single changes (KIP-853; Ongaro's thesis, 4.1), and `keys_changed()` is how we assert it:
comparing majorities by size alone would admit sets that share nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar, Final, NamedTuple

from barnabas.model import ZERO_UUID, Endpoint, NodeId, ReplicaKey
from barnabas.raft.value import altered, value

__all__ = ["SUPPORTED", "VersionRange", "Voter", "VoterSet"]


class VersionRange(NamedTuple):
    """The levels of kraft.version that a node supports, both ends included."""

    min: int
    max: int

    def covers(self, version: int) -> bool:
        return self.min <= version <= self.max


SUPPORTED = VersionRange(0, 1)
"""What this software supports: 0 static voters, 1 voters that change."""


@value
class Voter:
    """One member of the set: who it is, where it listens, what it supports."""

    key: ReplicaKey
    endpoints: tuple[Endpoint, ...] = ()
    versions: VersionRange = SUPPORTED

    def endpoint(self, listener: str) -> Endpoint | None:
        """Its endpoint of that listener; with an empty name, or if none matches, its first."""
        for endpoint in self.endpoints:
            if endpoint.listener == listener:
                return endpoint
        return self.endpoints[0] if self.endpoints else None


class VoterSet:
    """The voters, sorted by id; an id occurs once.  Raises ValueError where one would occur twice."""

    __slots__ = ("voters",)
    EMPTY: ClassVar[VoterSet]

    def __init__(self, voters: tuple[Voter, ...] = ()) -> None:
        self.voters: Final = tuple(sorted(voters, key=lambda voter: voter.key))
        if len({voter.key.id for voter in voters}) != len(voters):
            raise ValueError(f"a node id occurs twice in {self}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and self.voters == other.voters

    def __hash__(self) -> int:
        return hash(self.voters)

    def __repr__(self) -> str:
        return f"<VoterSet {' '.join(str(key) for key in self.keys)}>"

    @classmethod
    def of(cls, voters: Iterable[Voter]) -> VoterSet:
        return cls(tuple(voters))

    def __len__(self) -> int:
        return len(self.voters)

    def __iter__(self) -> Iterator[Voter]:
        return iter(self.voters)

    def __str__(self) -> str:
        return "·".join(str(voter.key.id) for voter in self.voters)

    @property
    def ids(self) -> tuple[NodeId, ...]:
        return tuple(voter.key.id for voter in self.voters)

    @property
    def keys(self) -> tuple[ReplicaKey, ...]:
        return tuple(voter.key for voter in self.voters)

    @property
    def majority(self) -> int:
        """How many make one: more than half."""
        return len(self.voters) // 2 + 1

    def get(self, node_id: NodeId) -> Voter | None:
        """The voter with this id, whatever its disk."""
        for voter in self.voters:
            if voter.key.id == node_id:
                return voter
        return None

    def entry(self, key: ReplicaKey) -> Voter | None:
        """Return the entry of this very replica; one without a directory id (kraft.version 0) matches by id."""
        voter = self.get(key.id)
        return (
            voter if voter is not None and voter.key.directory_id in (ZERO_UUID, key.directory_id) else None
        )

    def has(self, key: ReplicaKey) -> bool:
        """Return whether this replica is in the set."""
        return self.entry(key) is not None

    def counts(self, key: ReplicaKey, *, can_vote: bool) -> bool:
        """Return whether a replica does a voter's work: it is in this set, and its node has the controller role.

        A voter whose node runs without that role can neither elect nor be elected.  So its copy counts for
        nothing, though the majority keeps its size.  A node with the role syncs before it fetches, in the set
        or not (`syncs_first`): what counts is always durable.
        """
        return can_vote and self.has(key)

    def syncs_first(self, key: ReplicaKey, *, can_vote: bool) -> bool:
        """Return whether a replica may ask for more only once all it has is durable.

        A leader counts what a fetch says.  A node with the controller role may be in a newer set than its own
        log knows.  One without it may have a leader that does not know of the role (Apache Kafka).
        """
        return can_vote or self.has(key)

    def with_voter(self, voter: Voter) -> VoterSet:
        """This set and one more.  Raises ValueError when the id is in already."""
        return VoterSet((*self.voters, voter))

    def without(self, key: ReplicaKey) -> VoterSet:
        """This set without that replica (exactly that key)."""
        return VoterSet(tuple(voter for voter in self.voters if voter.key != key))

    def replacing(self, voter: Voter) -> VoterSet:
        """The entry of the same id replaced."""
        return VoterSet(tuple(voter if old.key.id == voter.key.id else old for old in self.voters))

    def without_directories(self) -> VoterSet:
        """The same ids, directories unknown: what static `controller.quorum.voters` can say."""
        return VoterSet(tuple(altered(v, key=ReplicaKey(v.key.id, ZERO_UUID)) for v in self.voters))

    def keys_changed(self, other: VoterSet) -> tuple[ReplicaKey, ...]:
        """The keys that are in one of the two sets only, in order."""
        mine, theirs = self.keys, other.keys
        return tuple(sorted([k for k in mine if k not in theirs] + [k for k in theirs if k not in mine]))


VoterSet.EMPTY = VoterSet()
