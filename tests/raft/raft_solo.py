"""One node under a microscope: the test plays its disk, its clock and everybody else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from raft_cluster import CLUSTER, SeededRandom, endpoint_of, key_of, voter_set

from barnabas.errors import ErrorCode
from barnabas.model import Endpoint, Now
from barnabas.raft.effects import Append, Effect, Reply, SaveElection, Send
from barnabas.raft.entries import BOOTSTRAP, Batch, ElectionState, KraftVersionEntry, Opaque, VotersEntry
from barnabas.raft.log_view import LogView
from barnabas.raft.membership.noted import ChangeNoted
from barnabas.raft.messages import (
    Answered,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    ElectionSaved,
    FetchRequest,
    FetchResponse,
    Message,
    Persisted,
    ProbeRequest,
    ProbeResponse,
    Received,
    Request,
    Response,
    Started,
    Tick,
    VoteRequest,
    VoteResponse,
)
from barnabas.raft.node import RaftNode
from barnabas.raft.settings import RaftConfig
from barnabas.raft.value import altered
from barnabas.raft.voters import SUPPORTED

Kind = TypeVar("Kind")


def journal_of(voters: Iterable[int], batches: Iterable[Batch] = (), version: int = 1) -> LogView:
    """The log of a node formatted with these first voters, and what it has written since."""
    first = voter_set(*voters)
    log_view = LogView(first.without_directories()) if version == 0 else LogView()
    if version >= 1 and len(first):
        log_view.restore_snapshot(BOOTSTRAP, 2, (KraftVersionEntry(1), VotersEntry(first)))
    for batch in batches:
        log_view.restore_batch(batch)
    log_view.restore_end(log_view.log_start, log_view.end_offset)
    return log_view


def records(base: int, epoch: int, count: int = 1) -> Batch:
    return Batch(base, epoch, (Opaque(f"{base}@{epoch}", count),), raw=b"")


class Solo:
    """Node 1 (unless told otherwise).  `disk=False`: the test says itself when things are durable."""

    def __init__(
        self,
        voters: Iterable[int] = (1, 2, 3),
        *,
        log_view: LogView | None = None,
        saved: ElectionState | None = None,
        config: RaftConfig | None = None,
        node_id: int = 1,
        endpoint: Endpoint | None = None,
        disk: bool = True,
    ) -> None:
        self.mono = 100.0
        self.keeps_history = False
        self.noted: list[ChangeNoted] = []
        self.disk = disk
        self.effects: list[Effect] = []
        self.sent: list[Send] = []
        self.replies: dict[object, Response] = {}
        self.tokens = 0
        self.node = RaftNode(
            key_of(node_id),
            (endpoint or endpoint_of(node_id),),
            altered(config or RaftConfig(cluster_id=CLUSTER), historian=self._note),
            log_view or journal_of(voters),
            saved,
            SeededRandom(7),
            self.now,
        )
        self.step(Started())

    def _note(self, change: ChangeNoted) -> tuple[Opaque, ...]:
        self.noted.append(change)
        return (Opaque(change.what),) if self.keeps_history else ()

    @property
    def now(self) -> Now:
        return Now(self.mono, round(self.mono * 1000))

    @property
    def role(self) -> str:
        return self.node.role.name

    def step(self, message: Message) -> list[Effect]:
        """One message, and (with a disk) all that the disk has to say to it."""
        waiting = [message]
        effects: list[Effect] = []
        while waiting:
            for effect in self.node.step(waiting.pop(0), self.now):
                effects.append(effect)
                if isinstance(effect, Send):
                    self.sent.append(effect)
                elif isinstance(effect, Reply):
                    assert effect.token not in self.replies, "answered twice"
                    self.replies[effect.token] = effect.response
                elif self.disk and isinstance(effect, SaveElection):
                    waiting.append(ElectionSaved(effect.serial))
                elif self.disk and isinstance(effect, Append):
                    waiting.append(Persisted(effect.batch.end_offset, self.node.log_view.cut))
        self.effects += effects
        return effects

    def ask(self, request: Request) -> Response | None:
        """A request from outside; None while it is not answered."""
        self.tokens += 1
        self.step(Received(self.tokens, request))
        return self.replies.get(self.tokens)

    def reply(self, token: int | None = None) -> Response | None:
        """What the last (or that) request was answered by now."""
        return self.replies.get(self.tokens if token is None else token)

    def error(self, request: Request) -> ErrorCode:
        response = self.ask(request)
        assert response is not None
        return response.error

    def take(self, kind: type, to: int | None = None) -> Send:
        """The oldest request of this kind that was sent (there), taken away."""
        for send in self.sent:
            wanted = isinstance(send.request, kind) and to in (None, send.to)
            if wanted and self.node.core.peers.expects(send.correlation):
                self.sent.remove(send)
                return send
        raise AssertionError(f"no {kind.__name__} to {to} in {self.sent}")

    def has_sent(self, kind: type, to: int | None = None) -> bool:
        """Whether such a request is under way and nobody has taken it."""
        return any(
            isinstance(send.request, kind)
            and to in (None, send.to)
            and self.node.core.peers.expects(send.correlation)
            for send in self.sent
        )

    def answer(self, send: Send, response: Response) -> None:
        self.step(Answered(send.correlation, response))

    def advance(self, seconds: float) -> None:
        """Let time pass, with a tick whenever one is due."""
        end = self.mono + seconds
        for _ in range(10_000):
            due = self.node.next_deadline()
            if due > end:
                break
            self.mono = max(self.mono, due)
            self.step(Tick())
        else:
            raise AssertionError(f"ticks without end at {self.mono}")
        self.mono = end
        self.step(Tick())

    # ------------------------------------------------------------ short cuts

    def stand(self) -> None:
        """Wait for the election timer: prospective."""
        self.advance(2.1)
        assert self.role in ("prospective", "candidate"), self.node

    def win(self, pre_vote: bool) -> None:
        """Everybody asked says yes."""
        for send in list(self.sent):
            if isinstance(send.request, VoteRequest) and send.request.pre_vote == pre_vote:
                self.sent.remove(send)
                self.answer(send, VoteResponse(ErrorCode.NONE, send.request.epoch, granted=True))

    def lead(self) -> Solo:
        """Become leader and have the first batch committed by everybody."""
        if self.role != "leader":
            self.stand()
            self.win(pre_vote=True)
            self.win(pre_vote=False)
        assert self.role == "leader", self.node
        for node_id in self.node.voters.ids:
            if node_id != self.node.core.key.id:
                self.fetch(node_id)
        return self

    def fetch(
        self, node_id: int, offset: int | None = None, disk: int = 0, **fields: object
    ) -> Response | None:
        """A follower fetches (from the end, unless told otherwise)."""
        log_view = self.node.log_view
        at = log_view.end_offset if offset is None else offset
        epoch = log_view.epoch_at(at - 1) if at else 0
        values = {"max_wait": 0.5, "cluster_id": CLUSTER, **fields}
        request = FetchRequest(self.node.epoch, key_of(node_id, disk), at, epoch, **values)  # type: ignore[arg-type]
        return self.ask(request)

    def follow(self, leader: int = 2, epoch: int = 1) -> Solo:
        """Hear of a leader, and have its first fetch answered with nothing."""
        self.ask(BeginQuorumEpochRequest(epoch, leader, (endpoint_of(leader),)))
        assert self.role == "follower", self.node
        self.fetched()
        return self

    def fetched(self, *batches: Batch, high_watermark: int = -1, **fields: object) -> None:
        """The leader answers the fetch under way."""
        send = self.take(FetchRequest)
        leader = self.node.leader_id
        assert leader is not None
        response = FetchResponse(
            ErrorCode.NONE,
            self.node.epoch,
            leader,
            high_watermark=high_watermark,
            batches=batches,
            **fields,  # type: ignore[arg-type]
        )
        self.answer(send, response)

    def vote(self, request: VoteRequest) -> VoteResponse:
        response = self.ask(request)
        assert isinstance(response, VoteResponse)
        return response

    def answer_probes(self, node_id: int, versions: object = SUPPORTED) -> None:
        """A voter-to-be says what it supports and that it is who it is."""
        self.answer(self.take(ProbeRequest, node_id), ProbeResponse(ErrorCode.NONE, versions))  # type: ignore[arg-type]
        if self.has_sent(BeginQuorumEpochRequest, node_id):
            begin = self.take(BeginQuorumEpochRequest, node_id)
            self.answer(
                begin, BeginQuorumEpochResponse(ErrorCode.NONE, self.node.epoch, self.node.core.key.id)
            )

    def observe(self, node_id: int, rounds: int = 3, disk: int = 0) -> None:
        """An observer that keeps up."""
        for _ in range(rounds):
            self.fetch(node_id, disk=disk)
            self.advance(0.01)
