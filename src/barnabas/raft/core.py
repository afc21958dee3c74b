"""The state that all parts of the quorum share, and the few ways to change it.

The parts (`election`, `replication`, `membership` ...) are functions over one `Core`.  It guarantees three
things for them:

- a role changes only along `roles.TRANSITIONS`, and an epoch never goes back;
- a step that changes what must not be forgotten also asks to save it (`SaveElection`), and the core holds back
  every request and answer until that is confirmed;
- the log changes only together with what the core knows of it (`log_view`), and the parts concerned are told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TypedDict, TypeVar

from barnabas.errors import ErrorCode
from barnabas.model import NO_NODE, ZERO_UUID, Endpoint, Epoch, NodeId, Now, Offset, ReplicaKey, Uuid
from barnabas.ports import Randomness
from barnabas.raft.discovery.book import AddressBook, Contact
from barnabas.raft.effects import (
    Append,
    ApplyEffect,
    Committed,
    Effect,
    Event,
    KraftVersionChanged,
    LeaderChanged,
    PersistEffect,
    Reply,
    SaveElection,
    Send,
    Truncate,
    VotersChanged,
)
from barnabas.raft.entries import Batch, ElectionState, Entry, SnapshotId
from barnabas.raft.log_view import LogView
from barnabas.raft.membership.generation import GENERATION_NOTE, QuorumGeneration
from barnabas.raft.messages import ChangeResponse, FetchResponse, Request, Response
from barnabas.raft.peers import Peers
from barnabas.raft.roles import (
    TRANSITIONS,
    Candidate,
    Cause,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
    Transition,
    Unattached,
)
from barnabas.raft.settings import RaftConfig
from barnabas.raft.value import altered
from barnabas.raft.voters import Voter, VoterSet

__all__ = ["LAST_EPOCH", "LONGEST_JUMP", "Core", "FirstLook", "IllegalTransition"]

Said = TypeVar("Said", bound=Request | Response)

LAST_EPOCH = (1 << 31) - 1
"""Epochs are 32 bits wide, on disk and on the wire; after this one there is none."""
LONGEST_JUMP = 1 << 24
"""Epochs that a node can have missed: an election a second for half a year.  A message of a later one is
not believed, because an epoch never goes back, and after the last one nobody can be elected."""


class IllegalTransition(Exception):  # noqa: N818 - it is the name of what happened
    """The quorum would have broken its own rules: a defect, ours or a peer's.  The node must stop."""


class LeaderHint(TypedDict):
    """The fields that every answer to another node has, after its error."""

    epoch: Epoch
    leader_id: NodeId
    endpoints: tuple[Endpoint, ...]


@dataclass(slots=True)
class FirstLook:
    """Which bootstrap servers have been asked (by their ids in `peers`), and until when we wait for them.

    `first_look` says what for.
    """

    deadline: float
    asked: dict[NodeId, None] = field(default_factory=dict)
    settled: dict[NodeId, None] = field(default_factory=dict)


class Core:
    """The state of one node in the quorum.  See the module."""

    __slots__ = (
        "_held",
        "asked",
        "asked_serial",
        "config",
        "endpoints",
        "epoch",
        "first_look",
        "high_watermark",
        "installing",
        "key",
        "log_view",
        "origin",
        "out",
        "peers",
        "random",
        "refused_leader",
        "role",
        "saved_serial",
        "shutdown_deadline",
        "snapshot_after",
        "snapshots_rejected",
        "stopped",
        "strange",
        "strangers",
        "superseded",
    )

    def __init__(
        self,
        key: ReplicaKey,
        endpoints: tuple[Endpoint, ...],
        config: RaftConfig,
        log_view: LogView,
        random: Randomness,
        contacts: tuple[Contact, ...] = (),
    ) -> None:
        self.key = key
        self.endpoints = endpoints
        self.config = config
        self.log_view = log_view
        self.random = random
        self.epoch: Epoch = 0
        self.role: Role = Unattached(deadline=inf)
        self.high_watermark: Offset | None = None
        self.peers = Peers(config.request_timeout, config.retry_backoff, AddressBook(key, contacts))
        self.out: list[Effect] = []
        self._held: list[tuple[int, Send | Reply, Epoch, int]] = []
        self.asked: ElectionState | None = None
        self.asked_serial = 0
        self.saved_serial = 0
        self.installing: SnapshotId | None = None
        self.snapshots_rejected = 0
        """Downloads in a row that could not be read."""
        self.snapshot_after = 0.0
        """No fetch before this time, after such a download (0: at once)."""
        self.shutdown_deadline: float | None = None
        self.stopped = False
        self.superseded = 0
        """The newest generation of the quorum that this node has heard of."""
        self.origin: Uuid = ZERO_UUID
        """Which quorum this node is of (`raft.identity.origin`); zero: not known yet."""
        self.strangers = 0
        """Messages and leaders of another quorum, none of them believed."""
        self.strange: dict[str, None] = {}
        """Their senders, or where they were found: each is reported once."""
        self.refused_leader: tuple[Epoch, NodeId] | None = None
        """The leader that is not followed in that epoch, because it contradicts what is committed here."""
        self.first_look: FirstLook | None = None

    # ------------------------------------------------------------ who am I

    @property
    def voters(self) -> VoterSet:
        return self.log_view.voter_sets.latest

    @property
    def is_voter(self) -> bool:
        """Return whether this replica counts in the set in force in its own log."""
        return self.voters.counts(self.key, can_vote=self.config.can_vote)

    def is_own(self, key: ReplicaKey) -> bool:
        """Return whether an entry of a voter set is this replica; by its id alone at kraft.version 0."""
        return key.id == self.key.id and key.directory_id in (ZERO_UUID, self.key.directory_id)

    @property
    def generation(self) -> QuorumGeneration:
        """The quorum generation of this node's log."""
        return QuorumGeneration.of(self.log_view.note(GENERATION_NOTE))

    @property
    def known_generation(self) -> int:
        """The newest quorum generation that this node has heard of, from others or from its log."""
        return max(self.superseded, self.generation.number)

    @property
    def outdated(self) -> bool:
        """Whether the quorum was formed anew by force, and this node's log does not say so (yet)."""
        return self.superseded > 0 and self.superseded > self.generation.number

    @property
    def may_stand(self) -> bool:
        """Whether this replica may stand for election: it votes, or its removal is not known to be committed.

        A leader that appended its own removal may be the only one that has it.  Its log is then longer
        than the others', it refuses them its vote, and they may need it: nobody could lead, unless it
        stands itself, wins without its own vote, and finishes the removal (Ongaro's thesis, 4.2.2).

        A replica whose log lost entries does not stand before a leader gave it such entries again.
        """
        if self.outdated or self.lacks or not self.config.can_vote:
            return False
        if self.is_voter:
            return True
        high_watermark = self.high_watermark or 0
        open_sets = [(o, voters) for o, voters in self.log_view.voter_sets.items() if o >= high_watermark]
        if not open_sets:
            return False
        before = self.log_view.voters_at(open_sets[0][0])
        return before.has(self.key) or any(voters.has(self.key) for _, voters in open_sets)

    @property
    def is_sole_voter(self) -> bool:
        """Whether it leads by itself; not where the log lost entries, and perhaps the other voters with them."""
        hidden = self.log_view.lacks and self.log_view.synced_end.voters > 1
        return len(self.voters) == 1 and self.is_voter and not hidden

    @property
    def lacks(self) -> bool:
        """Whether its log lost entries that others may have."""
        return self.log_view.lacks and not self.is_sole_voter

    @property
    def own_voter(self) -> Voter:
        """The entry of this node in a voter set."""
        return Voter(self.key, self.endpoints, self.config.versions)

    @property
    def leader_id(self) -> NodeId | None:
        """The leader of this epoch, as far as known."""
        role = self.role
        if isinstance(role, Leader):
            return self.key.id
        if isinstance(role, (Follower, Unattached, Prospective)):
            return role.leader_id
        return None

    @property
    def leader_endpoints(self) -> tuple[Endpoint, ...]:
        role = self.role
        if isinstance(role, Leader):
            return self.endpoints
        if isinstance(role, (Follower, Prospective)):
            return role.endpoints
        return ()

    def leader_hint(self) -> LeaderHint:
        """What every answer to another node says of epoch and leader."""
        leader = self.leader_id
        return LeaderHint(
            epoch=self.epoch,
            leader_id=NO_NODE if leader is None else leader,
            endpoints=self.leader_endpoints,
        )

    @property
    def unsaved(self) -> bool:
        """Something that must not be forgotten is not durable yet."""
        return self.asked_serial > self.saved_serial

    def believes(self, epoch: Epoch) -> bool:
        """Whether the quorum can be in such an epoch, by all that this node knows; if not, an event says so."""
        if epoch < LAST_EPOCH and epoch - self.epoch <= LONGEST_JUMP:
            return True
        self.emit("raft.epoch.refused", epoch=epoch, own=self.epoch)
        return False

    def address_of(self, node_id: NodeId) -> Endpoint | None:
        """Where a voter can be reached, by the set in force."""
        voter = self.voters.get(node_id)
        return voter.endpoint(self.config.listener) if voter else None

    def addresses_of(self, key: ReplicaKey) -> list[Endpoint]:
        """Where a replica may be, the likeliest first: as it said itself, as the voters say, as others say."""
        listener, contact = self.config.listener, self.peers.book.of(key)
        told = None if contact is None else contact.endpoint(listener)
        voter = self.address_of(key.id)
        found = [told, voter] if contact is not None and contact.start else [voter, told]
        return list(dict.fromkeys(endpoint for endpoint in found if endpoint is not None))

    def reach(self, node_id: NodeId) -> Endpoint | None:
        """The endpoint to try next for a request that names its addressee.

        It is where the voter was last heard of, and after failures a bootstrap server: when all controllers
        have moved, all that we know may be wrong, but one of the bootstrap servers is the one we look for.
        Whoever else is there refuses the request, because it is not the addressee.
        """
        place, others = self.peers.place(node_id), self.config.bootstrap
        if place % 2 == 0 or not others:
            return self.whereabouts(node_id)
        return others[place // 2 % len(others)]

    def whereabouts(self, node_id: NodeId) -> Endpoint | None:
        """Where a voter may be: after two failures at another of the places that we heard of."""
        voter = self.voters.get(node_id)
        known = self.addresses_of(voter.key) if voter else []
        return known[self.peers.place(node_id) // 2 % len(known)] if known else None

    def endpoints_of(self, node_id: NodeId) -> tuple[Endpoint, ...]:
        voter = self.voters.get(node_id)
        return voter.endpoints if voter else ()

    # ------------------------------------------------------------ saying things

    def do(self, effect: PersistEffect | ApplyEffect) -> None:
        self.out.append(effect)

    def emit(self, name: str, **fields: object) -> None:
        """An event for the operator."""
        self.out.append(Event(name, tuple(fields.items())))

    def send_aside(self, effect: Send) -> None:
        """Send what is about addresses only: it waits for nothing, and no peer's turn depends on it."""
        self.out.append(altered(effect, request=self._signed(effect.request)))

    def send(self, effect: Send) -> None:
        self.peers.goes_to(effect.correlation, effect.endpoint)
        request = self._signed(effect.request)
        self._leave(effect if request is effect.request else altered(effect, request=request))

    def reply(self, token: object, response: Response) -> None:
        self._leave(Reply(token, self._signed(response)))

    def _signed(self, said: Said) -> Said:
        """Add this node's quorum and the newest generation that it knows."""
        known, origin = self.known_generation, self.origin
        if (known or origin != ZERO_UUID) and hasattr(said, "generation"):
            return altered(said, generation=known, origin=origin)
        return said

    def _leave(self, effect: Send | Reply) -> None:
        if self.unsaved:
            self._held.append((self.asked_serial, effect, self.epoch, self.log_view.cut))
        else:
            self.out.append(effect)

    def saved(self, serial: int) -> None:
        """Election state up to this serial is durable: send what waited for it."""
        self.saved_serial = max(self.saved_serial, serial)
        held, self._held = self._held, []
        for needs, effect, epoch, cut in held:
            if needs > self.saved_serial:
                self._held.append((needs, effect, epoch, cut))
            elif isinstance(effect, Reply):
                current = epoch == self.epoch and cut == self.log_view.cut
                self.out.append(effect if current else effect.without_records())
            elif self.peers.expects(effect.correlation):
                self.out.append(effect)

    # ------------------------------------------------------------ changing the role

    def random_election_timeout(self) -> float:
        base = self.config.election_timeout
        return base + self.random.uniform(0.0, base)

    def become(self, role: Role, epoch: Epoch, cause: Cause, now: Now) -> None:
        """Take another role.  Raises IllegalTransition for what the table or the epochs forbid."""
        old = "" if cause is Cause.START else self.role.name
        if Transition(old, role.name, cause) not in TRANSITIONS:
            raise IllegalTransition(f"{old or 'start'} -> {role.name} because {cause.value}")
        if epoch < self.epoch:
            raise IllegalTransition(f"the epoch went back from {self.epoch} to {epoch}")
        if epoch > LAST_EPOCH:
            raise IllegalTransition(f"there is no other epoch after {self.epoch}")
        before = self.leader_id, self.epoch
        self._check(role, epoch)
        former = self.role
        new_leader = (epoch, _leader_of(role, self.key.id)) != (self.epoch, self.leader_id)
        self.role, self.epoch = role, epoch
        if new_leader or not isinstance(role, Follower):
            self.peers.reset()
        if new_leader and isinstance(role, Follower):
            self.peers.asks_only(role.leader_id)
        self.save_election(force=cause is Cause.START)
        if isinstance(former, Leader):
            self._abandon(former)
        self.emit("raft.role", role=role.name, epoch=epoch, cause=cause.name.lower())
        if not isinstance(role, Leader) and (self.leader_id, self.epoch) != before:
            self.do(LeaderChanged(epoch, self.leader_id, self.leader_endpoints))

    def _abandon(self, leader: Leader) -> None:
        """Refuse the requests that wait for a leader that no longer leads."""
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        for fetch in leader.parked:
            self.reply(fetch.token, FetchResponse(error, **self.leader_hint()))
        for change in leader.pending_changes:
            if not change.answered:
                reason = f"{change} was under way when this node ceased to lead: look before you repeat it"
                self.reply(change.token, ChangeResponse(error, reason))

    def _check(self, role: Role, epoch: Epoch) -> None:
        if isinstance(role, Follower):
            if role.leader_id == self.key.id:
                raise IllegalTransition("a node cannot follow itself")
            if not role.endpoints:
                raise IllegalTransition(f"leader {role.leader_id} has no address")
        known = self.leader_id
        named = _leader_of(role, self.key.id)
        if isinstance(self.role, Resigned):
            known = self.key.id
        if epoch == self.epoch and known is not None and named is not None and known != named:
            raise IllegalTransition(f"epoch {epoch} has two leaders: {known} and {named}")
        if isinstance(role, Leader) and isinstance(self.role, Candidate):
            granted = sum(self.role.answers.get(i, False) for i in self.voters.ids)
            if granted < self.voters.majority:
                raise IllegalTransition(f"{granted} votes of {len(self.voters)} elect nobody")
        if isinstance(role, (Prospective, Candidate)) and not self.may_stand:
            raise IllegalTransition("an observer cannot stand for election")

    def election_state(self) -> ElectionState:
        """What must be durable in the present role."""
        role, known = self.role, self.known_generation
        if isinstance(role, Candidate):
            return ElectionState(self.epoch, NO_NODE, self.key, known, self.origin)
        if isinstance(role, (Leader, Resigned)):
            return ElectionState(self.epoch, self.key.id, None, known, self.origin)
        leader = NO_NODE if role.leader_id is None else role.leader_id
        return ElectionState(self.epoch, leader, role.voted, known, self.origin)

    def save_election(self, force: bool = False) -> None:
        """Save the election state if it has changed."""
        state = self.election_state()
        if state == self.asked and not force:
            return
        self.asked = state
        self.asked_serial += 1
        self.do(SaveElection(self.asked_serial, state, self.log_view.kraft_version))

    # ------------------------------------------------------------ changing the log

    def append(self, entries: tuple[Entry, ...]) -> Batch:
        """Append one batch of our own epoch (leader only)."""
        if not isinstance(self.role, Leader):
            raise IllegalTransition(f"a {self.role.name} appends nothing of its own")
        batch = Batch(self.log_view.end_offset, self.epoch, entries)
        self.append_batches([batch])
        return batch

    def append_batches(self, batches: Sequence[Batch]) -> None:
        """Append batches, ours or the leader's."""
        voters, version, lacked = self.voters, self.log_view.kraft_version, self.lacks
        for batch in batches:
            self.log_view.append(batch)
            self.do(Append(batch))
        self.report_changes(voters, version, lacked)

    @property
    def committed(self) -> Offset:
        """What this node knows to be committed, since it started or from the disk."""
        return max(self.high_watermark or 0, self.log_view.known_committed)

    def truncate(self, end_offset: Offset) -> None:
        """Cut the log.  Raises IllegalTransition when that would remove committed entries."""
        committed = self.committed
        if end_offset < committed:
            raise IllegalTransition(
                f"truncating to {end_offset} below the high watermark {committed}: "
                f"leader {self.leader_id} of epoch {self.epoch} lacks what was committed"
            )
        voters, version = self.voters, self.log_view.kraft_version
        self.emit("raft.truncate", end_offset=end_offset, was=self.log_view.end_offset)
        self.log_view.truncate(end_offset)
        self.do(Truncate(end_offset))
        self.report_changes(voters, version)

    def report_changes(self, voters: VoterSet, version: int, lacked: bool = False) -> None:
        """Report voters and kraft.version where they are no longer these, and a log that is whole again."""
        if lacked and not self.lacks:
            self.emit("raft.log.whole-again", end_offset=self.log_view.end_offset, leader=self.leader_id)
        if self.voters is not voters and self.voters != voters:
            offset = self.log_view.voter_sets.latest_offset
            self.do(VotersChanged(self.voters, -1 if offset is None else offset))
            if not self.config.can_vote and self.voters.has(self.key):
                self.emit("raft.voter.without-role", voter=self.key)
        if self.log_view.kraft_version != version:
            self.do(KraftVersionChanged(self.log_view.kraft_version))

    def commit(self, high_watermark: Offset) -> bool:
        """Advance the high watermark; it never goes back.  Returns whether it moved."""
        if self.high_watermark is not None and high_watermark <= self.high_watermark:
            return False
        self.high_watermark = high_watermark
        self.log_view.fold_notes(high_watermark)
        self.do(Committed(high_watermark))
        return True


def _leader_of(role: Role, own_id: NodeId) -> NodeId | None:
    if isinstance(role, Leader):
        return own_id
    if isinstance(role, (Follower, Unattached, Prospective)):
        return role.leader_id
    return None
