"""The quorum as a function: a message and the time go in, effects come out; nothing else happens.

    effects = node.step(message, now)

`step` hands the message to the part that knows it, then lets the role do what is due (`_drive`), until
nothing changes any more.  `next_deadline()` says when to come back with a Tick.
"""

from __future__ import annotations

from math import inf
from typing import assert_never

from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import NO_NODE, NO_OFFSET, ZERO_UUID, Endpoint, Epoch, NodeId, Now, Offset, ReplicaKey
from barnabas.ports import Randomness
from barnabas.raft import answers, election, following, leadership, replication
from barnabas.raft.core import Core, IllegalTransition
from barnabas.raft.describe import Description, RaftStatistics, describe
from barnabas.raft.discovery.book import Contact
from barnabas.raft.discovery.exchange import Exchange
from barnabas.raft.effects import Accepted, Effect, Refused, Stopped
from barnabas.raft.entries import ElectionState, Note, Opaque, SnapshotId
from barnabas.raft.identity import first_look, origin, superseded
from barnabas.raft.log_view import LogView
from barnabas.raft.membership import autopilot, check, pending
from barnabas.raft.messages import (
    Answered,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    ChangeResponse,
    Disconnected,
    ElectionSaved,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    ExchangeRequest,
    ExchangeResponse,
    Failed,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    LogStartMoved,
    Message,
    Persisted,
    ProbeResponse,
    Propose,
    Received,
    Request,
    Resign,
    Response,
    Shutdown,
    SnapshotInstalled,
    SnapshotRejected,
    SnapshotTaken,
    Started,
    Supervise,
    Tick,
    UpdateVoterResponse,
    VoteRequest,
    VoteResponse,
)
from barnabas.raft.roles import Cause, Follower, Leader, Resigned, Role, Unattached
from barnabas.raft.settings import RaftConfig
from barnabas.raft.voters import VoterSet

__all__ = ["RaftNode"]

ANOTHER_QUORUM = "it has the id of this cluster and is of another quorum"


class RaftNode:
    """One member (or observer) of the quorum.  Its first message must be `Started()`."""

    __slots__ = ("_saved", "core", "exchange")

    def __init__(
        self,
        key: ReplicaKey,
        endpoints: tuple[Endpoint, ...],
        config: RaftConfig,
        log_view: LogView,
        saved: ElectionState | None,
        randomness: Randomness,
        now: Now,
        contacts: tuple[Contact, ...] = (),
    ) -> None:
        self.core = Core(key, endpoints, config, log_view, randomness, contacts)
        self.exchange = Exchange()
        self._saved = saved

    def __repr__(self) -> str:
        core = self.core
        known = "?" if core.high_watermark is None else core.high_watermark
        return f"<{core.role.name.capitalize()} epoch={core.epoch} hw={known} voters={core.voters}>"

    # ------------------------------------------------------------ reading

    @property
    def role(self) -> Role:
        return self.core.role

    @property
    def epoch(self) -> Epoch:
        return self.core.epoch

    @property
    def leader_id(self) -> NodeId | None:
        return self.core.leader_id

    @property
    def leader_endpoints(self) -> tuple[Endpoint, ...]:
        return self.core.leader_endpoints

    @property
    def is_leader(self) -> bool:
        return isinstance(self.core.role, Leader)

    @property
    def is_voter(self) -> bool:
        return self.core.is_voter

    @property
    def high_watermark(self) -> Offset | None:
        return self.core.high_watermark

    @property
    def voters(self) -> VoterSet:
        return self.core.voters

    @property
    def kraft_version(self) -> int:
        return self.core.log_view.kraft_version

    @property
    def log_view(self) -> LogView:
        return self.core.log_view

    def describe(self, now: Now) -> Description:
        """The quorum as this node sees it (DescribeQuorum; only a leader knows the replicas)."""
        return describe(self.core, now)

    def check(self, request: Request, now: Now) -> ChangeResponse:
        """What would become of this change if it were asked for now; nothing is changed."""
        return check.check(self.core, request, now)

    def check_snapshot(self, snapshot: SnapshotId) -> str | None:
        """Why no such snapshot may be made here; None: it may (KIP-630)."""
        core = self.core
        if core.high_watermark is None or snapshot.end_offset > core.high_watermark:
            return f"offset {snapshot.end_offset} is not committed yet"
        if snapshot.end_offset < core.log_view.log_start:
            return f"offset {snapshot.end_offset} is before the log start {core.log_view.log_start}"
        if core.log_view.epoch_at(snapshot.end_offset - 1) != snapshot.epoch:
            return f"the record before offset {snapshot.end_offset} is not of epoch {snapshot.epoch}"
        return None

    def statistics(self) -> RaftStatistics:
        core = self.core
        log_view, role = core.log_view, core.role
        leads = isinstance(role, Leader)
        return RaftStatistics(
            role.name,
            core.epoch,
            core.leader_id,
            NO_OFFSET if core.high_watermark is None else core.high_watermark,
            log_view.end_offset,
            log_view.last_epoch,
            log_view.persisted,
            len(core.voters),
            len(role.observers) if isinstance(role, Leader) else 0,
            leads and pending.pending_change(core) is not None,
            core.strangers,
        )

    def next_deadline(self) -> float:
        """Monotonic seconds at which a Tick is due; inf: none."""
        core = self.core
        role = core.role
        if core.stopped:
            return inf
        due = min(core.peers.next_deadline(), self.exchange.deadline())
        if core.shutdown_deadline is not None:
            due = min(due, core.shutdown_deadline)
        if isinstance(role, Leader):
            return min(due, leadership.deadline(core, role), pending.deadline(role))
        if isinstance(role, Follower):
            return min(due, following.deadline(core, role))
        if (isinstance(role, Unattached) and core.installing) or (
            isinstance(role, Resigned) and core.shutdown_deadline is not None
        ):
            return due
        return min(due, role.deadline)

    # ------------------------------------------------------------ the one way in

    def step(self, message: Message, now: Now) -> list[Effect]:
        """Take one message.  Returns the effects, to be carried out in the order of `driver.Driver`.

        Raises IllegalTransition when going on would break the rules of the quorum, and KafkaError when a
        peer says that this node may not take part: in both cases the node must stop.
        """
        core = self.core
        if core.stopped and not isinstance(message, (Received, Persisted, ElectionSaved)):
            return []
        self._take(message, now)
        self._drive(now)
        effects, core.out = core.out, []
        return effects

    def _drive(self, now: Now) -> None:
        """Let the role do what is due, until the role stays the same."""
        core = self.core
        if core.stopped:
            return
        if core.peers.next_deadline() <= now.mono:
            for correlation in core.peers.expired(now.mono):
                self._failed(correlation, "no answer in time", now)
            core.peers.wake(now.mono)
        while True:
            role = core.role
            if isinstance(role, Leader):
                leadership.drive(core, role, now)
                if core.role is role:
                    pending.drive(core, role, now)
                if core.role is role:
                    replication.release(core, role, now)
                    leadership.resign_when_removed(core, role, now)
            elif isinstance(role, Follower):
                following.drive(core, role, now)
            else:
                if isinstance(role, Unattached):
                    following.discover(core, role, now)
                election.drive(core, now)
            if core.role is role:
                break
        if core.origin == ZERO_UUID:
            origin.learn(core)
        self.exchange.drive(core, now)
        self._finish_shutdown(now)

    # ------------------------------------------------------------ from the driver

    def _take(self, message: Message, now: Now) -> None:
        """Hand the message to the part that it concerns."""
        core = self.core
        match message:
            case Received(token, request):
                self._received(token, request, now)
            case Answered(correlation, response):
                self._answered(correlation, response, now)
            case Failed(correlation, reason, unsupported, foreign):
                self._failed(correlation, reason, now, unsupported=unsupported, foreign=foreign)
            case Disconnected(node_id, reason):
                self._disconnected(node_id, reason, now)
            case Persisted(end_offset, cut):
                core.log_view.persisted_to(end_offset, cut)
            case ElectionSaved(serial):
                core.saved(serial)
            case Propose():
                self._propose(message)
            case SnapshotTaken(snapshot, size):
                core.log_view.snapshot_taken(snapshot, size)
            case SnapshotInstalled():
                following.on_snapshot_installed(core, message)
            case SnapshotRejected():
                following.on_snapshot_rejected(core, message, now)
            case LogStartMoved(log_start):
                core.log_view.log_start_moved(log_start)
            case Resign(epoch):
                self._resign(epoch, now)
            case Supervise():
                autopilot.look(core, message, now)
            case Shutdown(timeout):
                self._shutdown(timeout, now)
            case Started():
                election.start(core, self._saved, now)
                self.exchange.begin(core, now)
            case Tick():
                pass
            case _:
                assert_never(message)

    def _propose(self, message: Propose) -> None:
        core = self.core
        role = core.role
        if not isinstance(role, Leader) or message.epoch < core.epoch:
            why = f"this node does not lead epoch {message.epoch}"
            core.do(Refused(message.token, ErrorCode.NOT_CONTROLLER, why))
        elif not all(isinstance(entry, (Opaque, Note)) for entry in message.entries):
            raise IllegalTransition("only the quorum itself writes its control entries")
        elif message.epoch > core.epoch:
            raise IllegalTransition(f"a proposal of epoch {message.epoch} in epoch {core.epoch}")
        else:
            batch = core.append(message.entries)
            core.do(Accepted(message.token, batch.base_offset, batch.last_offset, core.epoch))

    def _resign(self, epoch: Epoch, now: Now) -> None:
        core = self.core
        if epoch < core.epoch:
            return
        if epoch > core.epoch or not isinstance(core.role, Leader):
            raise IllegalTransition(f"cannot resign from epoch {epoch}: {self!r}")
        leadership.resign(core, core.role, Cause.STEP_DOWN, now)

    # ------------------------------------------------------------ shutdown

    def _shutdown(self, timeout: float, now: Now) -> None:
        core = self.core
        core.shutdown_deadline = now.mono + timeout
        if isinstance(core.role, Leader) and not core.is_sole_voter:
            leadership.resign(core, core.role, Cause.STEP_DOWN, now)

    def _finish_shutdown(self, now: Now) -> None:
        """A leader stops once another leads; other nodes stop at once."""
        core = self.core
        if core.shutdown_deadline is None or core.stopped:
            return
        if core.is_sole_voter or not isinstance(core.role, Resigned):
            handed_over = True
        elif now.mono >= core.shutdown_deadline:
            handed_over = False
        else:
            return
        core.stopped = True
        core.do(Stopped(handed_over))

    # ------------------------------------------------------------ from and to other nodes

    def _received(self, token: object, request: Request, now: Now) -> None:
        core = self.core
        if isinstance(request, ExchangeRequest):  # it is about addresses, and changes nothing else
            self.exchange.requested(core, token, request, now)
            return
        if core.stopped:
            core.reply(token, _refusal(core, request, ErrorCode.BROKER_NOT_AVAILABLE))
            return
        if getattr(request, "cluster_id", None) not in (None, core.config.cluster_id):
            self._asked(token, request, now)  # which refuses it
            return
        first_look.heard(core, NO_NODE, request)
        if origin.is_stranger(core, request):
            origin.notice(core, origin.speaker(request), ANOTHER_QUORUM)
            core.reply(token, _refusal(core, request, ErrorCode.INCONSISTENT_VOTER_SET))
            return
        request = superseded.believed(core, request)
        superseded.hear(core, superseded.number_of(request), now)
        if superseded.is_stale(core, request):
            election.refuse_stale(core, token, request)  # type: ignore[arg-type]
        else:
            self._asked(token, request, now)

    def _asked(self, token: object, request: Request, now: Now) -> None:
        core = self.core
        match request:
            case VoteRequest():
                election.on_vote(core, token, request, now)
            case BeginQuorumEpochRequest():
                election.on_begin(core, token, request, now)
            case EndQuorumEpochRequest():
                election.on_end(core, token, request, now)
            case FetchRequest():
                replication.on_fetch(core, token, request, now)
            case FetchSnapshotRequest():
                replication.on_fetch_snapshot(core, token, request, now)
            case _:
                pending.on_request(core, token, request, now)

    def _answered(self, correlation: int, response: Response, now: Now) -> None:
        core = self.core
        if self.exchange.expects(correlation):
            self.exchange.answered(core, correlation, response, now)
            return
        where = core.peers.address(correlation)
        taken = core.peers.take(correlation)
        if taken is None:
            return
        node_id, request = taken
        if response.error is ErrorCode.INCONSISTENT_CLUSTER_ID:
            first_look.settled(core, node_id)
        else:
            first_look.heard(core, node_id, response)
            if self._unbelievable(node_id, where, request, response, now):
                return
            response = superseded.believed(core, response)
            superseded.hear(core, superseded.number_of(response), now)
        if response.error is ErrorCode.NONE:
            core.peers.fine(node_id)
            core.peers.heard_from(node_id)
        elif response.error is ErrorCode.INVALID_VOTER_KEY:
            answers.no_answer(
                core, node_id, where, "another controller, or another disk of this one, answers"
            )
        elif isinstance(response, FetchResponse) and response.error is ErrorCode.INCONSISTENT_VOTER_SET:
            raise superseded.left_behind(core, node_id, response)
        elif response.error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise KafkaError(response.error, f"node {node_id} does not authorize this one")
        elif node_id <= answers.FIRST_SERVER:
            if getattr(response, "leader_id", NO_NODE) >= 0:
                core.peers.heard_from(node_id)
            else:
                answers.no_answer(core, node_id, where, f"{response.error.name}: it names no leader")
        self._hear(node_id, request, response, now)

    def _unbelievable(
        self, node_id: NodeId, where: Endpoint | None, request: Request, response: Response, now: Now
    ) -> bool:
        """Whether this answer is ignored as a whole."""
        core = self.core
        if origin.is_stranger(core, response):
            origin.notice(core, where, ANOTHER_QUORUM)
            core.peers.try_next_endpoint(node_id)
            why = "a controller of another quorum answers there"
        elif not core.believes(epoch := getattr(response, "epoch", core.epoch)):
            why = f"it speaks of epoch {epoch}"
        else:
            return False
        core.peers.back_off(node_id, now.mono)
        answers.no_answer(core, node_id, where, why)
        pending.on_failure(core, node_id, request, why)
        return True

    def _hear(self, node_id: NodeId, request: Request, response: Response, now: Now) -> None:
        core = self.core
        match response:
            case VoteResponse():
                assert isinstance(request, VoteRequest)
                election.on_vote_response(core, node_id, request, response, now)
            case FetchResponse():
                following.on_fetch_response(core, node_id, response, now)
            case FetchSnapshotResponse():
                following.on_snapshot_response(core, node_id, response, now)
            case BeginQuorumEpochResponse(error):
                if error in (ErrorCode.INVALID_VOTER_KEY, ErrorCode.INVALID_REQUEST):
                    # Another answered; or we did, among the bootstrap servers.
                    core.peers.try_next_endpoint(node_id)
                if election.find_leader(core, response, now):
                    pending.on_begin_response(core, node_id, request, response, now)
            case EndQuorumEpochResponse():
                if not election.find_leader(core, response, now):
                    core.peers.back_off(node_id, now.mono)
                elif isinstance(core.role, Resigned):
                    core.role.waiting_for.pop(node_id, None)
            case UpdateVoterResponse():
                following.on_update_response(core, node_id, response, now)
            case ChangeResponse():
                following.on_join_response(core, response)
            case ProbeResponse():
                pending.on_probe_response(core, node_id, response, now)
            case ExchangeResponse():  # nobody waits for it any more
                pass
            case _:
                assert_never(response)

    def _failed(
        self, correlation: int, reason: str, now: Now, *, unsupported: bool = False, foreign: bool = False
    ) -> None:
        core = self.core
        if self.exchange.expects(correlation):
            self.exchange.failed(core, correlation, now, unsupported=unsupported)
            return
        where = core.peers.address(correlation)
        taken = core.peers.take(correlation)
        if taken is None:
            return
        node_id, request = taken
        core.peers.back_off(node_id, now.mono)
        answers.no_answer(core, node_id, where, reason)
        first_look.settled(core, node_id)
        if not unsupported:
            core.peers.try_next_endpoint(node_id)
        if unsupported and isinstance(request, VoteRequest):
            election.on_vote_unsupported(core, request, now)
        pending.on_failure(core, node_id, request, reason, for_good=foreign)

    def _disconnected(self, node_id: NodeId, reason: str, now: Now) -> None:
        core = self.core
        for correlation in core.peers.waiting_on(node_id):
            self._failed(correlation, reason, now)
        if isinstance(core.role, Follower) and core.role.leader_id == node_id:
            following.leader_reset(core, core.role, now)


def _refusal(core: Core, request: Request, error: ErrorCode) -> Response:
    """The refusal of a request that is not looked at."""
    match request:
        case VoteRequest():
            return VoteResponse(error, core.epoch)
        case BeginQuorumEpochRequest():
            return BeginQuorumEpochResponse(error, core.epoch)
        case EndQuorumEpochRequest():
            return EndQuorumEpochResponse(error, core.epoch)
        case FetchRequest():
            return FetchResponse(error, core.epoch)
        case FetchSnapshotRequest():
            return FetchSnapshotResponse(error, core.epoch)
        case _:
            return pending.refusal(core, request, error)
