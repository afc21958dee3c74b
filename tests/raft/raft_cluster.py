"""A whole quorum in one thread: virtual time, a network that loses, disks that lose what was not synced.

Small and deterministic: one seed, one run.  Every node runs the real `RaftNode` under the real `Driver`;
only the log, the disk and the wires are toys.  After every event the invariants of the quorum are checked
(`raft_invariants`).
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from raft_invariants import Invariants

from barnabas.errors import ErrorCode
from barnabas.model import Endpoint, Now, ReplicaKey, Uuid
from barnabas.raft.driver import Driver
from barnabas.raft.effects import (
    Accepted,
    Append,
    Committed,
    Effect,
    Event,
    InstallSnapshot,
    Refused,
    Reply,
    SaveElection,
    Send,
    Truncate,
    VotersChanged,
    WriteSnapshot,
)
from barnabas.raft.entries import (
    BOOTSTRAP,
    Batch,
    ElectionState,
    Entry,
    KraftVersionEntry,
    Note,
    Opaque,
    SnapshotId,
    VotersEntry,
)
from barnabas.raft.log_view import LogView
from barnabas.raft.membership.noted import ChangeNoted
from barnabas.raft.messages import (
    Answered,
    ChangeResponse,
    Disconnected,
    ElectionSaved,
    Failed,
    FetchResponse,
    FetchSnapshotResponse,
    LogStartMoved,
    Message,
    Persisted,
    ProbeRequest,
    ProbeResponse,
    Propose,
    Received,
    Request,
    Response,
    SnapshotInstalled,
    SnapshotTaken,
    Started,
    SyncTicket,
    Tick,
    VoteRequest,
    VoteResponse,
)
from barnabas.raft.node import RaftNode
from barnabas.raft.settings import RaftConfig
from barnabas.raft.value import altered
from barnabas.raft.voters import VersionRange, Voter, VoterSet

CLUSTER = "a-cluster"


def key_of(node_id: int, disk: int = 0) -> ReplicaKey:
    """The replica of this node on its nth disk."""
    return ReplicaKey(node_id, Uuid.of(node_id, disk + 1))


def endpoint_of(node_id: int) -> Endpoint:
    return Endpoint("CONTROLLER", f"n{node_id}", 9000 + node_id)


def bootstrap_of(node_id: int) -> Endpoint:
    """A name that leads to the node wherever it has moved."""
    return Endpoint("CONTROLLER", f"dns{node_id}", 9000 + node_id)


def voter_of(node_id: int, disk: int = 0) -> Voter:
    return Voter(key_of(node_id, disk), (endpoint_of(node_id),))


def voter_set(*ids: int) -> VoterSet:
    return VoterSet.of(voter_of(i) for i in ids)


class SeededRandom:
    """ports.Randomness over a seeded generator."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)

    def integer(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def uuid(self) -> Uuid:
        return Uuid(self._random.randbytes(16))


@dataclass
class Disk:
    """What survives a crash: synced batches, the saved election state, frozen snapshots."""

    key: ReplicaKey
    durable: list[Batch] = field(default_factory=list)
    election: ElectionState | None = None
    snapshots: list[tuple[SnapshotId, tuple[Entry, ...], int]] = field(default_factory=list)
    log_start: int = 0

    def log_view(self, static: VoterSet) -> LogView:
        log_view = LogView(static)
        for snapshot, entries, size in self.snapshots:
            log_view.restore_snapshot(snapshot, size, entries)
        for batch in self.durable:
            log_view.restore_batch(batch)
        log_view.restore_end(self.log_start, log_view.end_offset)
        return log_view


class TracedNode(RaftNode):
    """The real node; what it decides is told in the order it decides."""

    __slots__ = ("tell", "watch")

    def step(self, message: Message, now: Now) -> list[Effect]:
        voters, led = self.voters, self.is_leader
        effects = super().step(message, now)
        for effect in effects:
            if isinstance(effect, VotersChanged):
                voters = effect.voters
            elif isinstance(effect, Committed) and led:
                self.watch(effect.high_watermark, voters)
            line = _line(effect)
            if line:
                self.tell(line)
        return effects


def _line(effect: Effect) -> str:
    if isinstance(effect, Append):
        return f"append {effect.batch}"
    if isinstance(effect, Truncate):
        return f"truncate to {effect.end_offset}"
    if isinstance(effect, Committed):
        return f"hw {effect.high_watermark}"
    if isinstance(effect, VotersChanged):
        return f"voters {effect.voters}"
    if isinstance(effect, Event) and effect.name == "raft.role":
        fields = dict(effect.fields)
        return f"{fields['role']} in epoch {fields['epoch']} ({fields['cause']})"
    if isinstance(effect, Event) and effect.name == "raft.vote":
        fields = dict(effect.fields)
        kind = "pre-vote" if fields["pre_vote"] else "vote"
        verb = "gives" if fields["granted"] else "refuses"
        return f"{verb} {kind} to {fields['candidate']} for epoch {fields['epoch']}"
    if isinstance(effect, Event) and effect.name != "raft.truncate":
        return str(effect)
    return ""


class Server:
    """One running process: a node, its order, its (volatile view of the) log."""

    def __init__(self, cluster: Cluster, node_id: int, disk: Disk, config: RaftConfig, life: int) -> None:
        self.cluster = cluster
        self.id = node_id
        self.disk = disk
        self.life = life
        self.log = list(disk.durable)
        self.alive = True
        self.story: list[str] = []
        self.proposals: dict[object, int] = {}
        self.committed = 0
        self.paused_until = 0.0
        self.votes: dict[object, bool] = {}
        self.partial: list[object] = []
        now = cluster.now
        endpoints = cluster.endpoints.get(node_id, (endpoint_of(node_id),))
        log_view = disk.log_view(cluster.static_voters)
        config = altered(config, historian=self._noted)
        self.node = TracedNode(
            disk.key,
            endpoints,
            altered(config, historian=self._noted),
            log_view,
            disk.election,
            cluster.chance(node_id),
            now,
        )
        self.node.tell = lambda line: cluster.tell(self, line)
        self.node.watch = lambda high, voters: cluster.invariants.published(cluster, self, high, voters)
        self.driver = Driver(self.node, self, self)

    def _noted(self, change: ChangeNoted) -> tuple[Opaque, ...]:
        self.apply(change)
        return ()

    def receive(self, message: Message) -> None:
        if self.alive and self.paused_until > self.cluster.mono:
            wait = self.paused_until - self.cluster.mono
            if not isinstance(message, Tick):
                self.cluster.after(wait, self.id, lambda: self.receive(message), self.life, ordered=True)
        elif self.alive:
            self.driver.receive(message)
            self.driver.run(self.cluster.now)
            self.cluster.invariants.check(self.cluster, self)

    # -------------------------------------------------------- Store

    def append(self, batch: Batch) -> None:
        self.log.append(altered(batch, raw="bytes"))

    def truncate(self, end_offset: int) -> None:
        kept: list[Batch] = []
        for batch in self.log:
            if batch.end_offset <= end_offset:
                kept.append(batch)
            elif batch.base_offset < end_offset:
                raise AssertionError(f"truncation to {end_offset} inside {batch}")
        self.log = kept

    def start_sync(self, ticket: SyncTicket) -> None:
        upto = list(self.log)
        self.cluster.after(self.cluster.sync_time(), self.id, lambda: self._synced(ticket, upto), self.life)

    def _synced(self, ticket: SyncTicket, upto: list[Batch]) -> None:
        if not self.alive:
            return
        if ticket.cut == self.node.log_view.cut:
            self.disk.durable = [batch for batch in upto if batch.base_offset >= self.disk.log_start]
        self.receive(Persisted(ticket.end_offset, ticket.cut))

    def save_election(self, effect: SaveElection) -> None:
        def saved() -> None:
            if self.alive:
                self.cluster.invariants.saved(self.disk, effect.state)
                self.disk.election = effect.state
                self.receive(ElectionSaved(effect.serial))

        delay = 0.0 if self.cluster.sync_now else self.cluster.sync_time()
        self.cluster.after(delay, self.id, saved, self.life, ordered=True)

    def write_snapshot(self, effect: WriteSnapshot) -> None:
        if effect.position == 0:
            self.partial = []
        assert isinstance(effect.data, list)
        self.partial += effect.data

    def install_snapshot(self, effect: InstallSnapshot) -> None:
        entries = tuple(self.partial)
        assert len(entries) == effect.size
        self.disk.snapshots = [(effect.snapshot, entries, effect.size)]  # type: ignore[list-item]
        self.disk.durable, self.log = [], []
        self.disk.log_start = effect.snapshot.end_offset
        self.driver.receive(SnapshotInstalled(effect.snapshot, effect.size, entries))  # type: ignore[arg-type]

    # -------------------------------------------------------- Outputs

    def send(self, effect: Send) -> None:
        target = effect.endpoint.port - 9000 if effect.endpoint is not None else effect.to
        self.cluster.transmit_request(self, target, effect)

    def reply(self, effect: Reply) -> None:
        response = effect.response
        if isinstance(response, FetchResponse) and response.read is not None:
            response = altered(
                response, read=None, batches=self._read(response.read.offset, response.read.end)
            )
        elif isinstance(response, FetchSnapshotResponse) and response.read is not None:
            response = self._read_snapshot(response)
        if callable(effect.token):
            effect.token(response)
            return
        assert isinstance(effect.token, tuple)
        if isinstance(response, VoteResponse) and response.granted and self.votes.pop(effect.token, False):
            self.cluster.invariants.gave_vote(self.disk, response.epoch, effect.token[0])
        self.cluster.transmit_response(self, effect.token, response)

    def _read(self, offset: int, end: int) -> tuple[Batch, ...]:
        found = [b for b in self.log if b.base_offset >= offset and b.end_offset <= end]
        assert found and found[0].base_offset == offset, (offset, end, self.log)
        return tuple(found[: self.cluster.fetch_batches])

    def _read_snapshot(self, response: FetchSnapshotResponse) -> FetchSnapshotResponse:
        read = response.read
        assert read is not None
        entries = next(e for s, e, _ in self.disk.snapshots if s == read.snapshot)
        piece = list(entries[read.position : read.position + 2])
        return altered(response, read=None, data=piece, length=len(piece))

    def apply(self, effect: object) -> None:
        cluster = self.cluster
        if isinstance(effect, Committed):
            self.committed = effect.high_watermark
            cluster.invariants.committed(cluster, self)
        elif isinstance(effect, (Accepted, Refused)):
            self.proposals[effect.token] = effect.last_offset if isinstance(effect, Accepted) else -1

    # -------------------------------------------------------- for tests

    def snapshot(self) -> None:
        """Take a snapshot of all that is committed, and cut the log in front."""
        log_view = self.node.log_view
        boundary = [b for b in self.log if b.end_offset <= self.committed]
        if not boundary:
            return
        last = boundary[-1]
        snapshot = SnapshotId(last.end_offset, last.epoch)
        assert self.node.check_snapshot(snapshot) is None
        entries: tuple[Entry, ...] = (
            KraftVersionEntry(log_view.kraft_version_at(snapshot.end_offset)),
            VotersEntry(log_view.voters_at(snapshot.end_offset)),
            *(Note(k, v) for k, v in log_view.notes.items()),
            Opaque("state"),
        )
        self.disk.snapshots = [(snapshot, entries, len(entries))]
        self.disk.log_start = snapshot.end_offset
        self.log = [b for b in self.log if b.base_offset >= snapshot.end_offset]
        self.disk.durable = [b for b in self.disk.durable if b.base_offset >= snapshot.end_offset]
        self.receive(SnapshotTaken(snapshot, len(entries)))
        self.receive(LogStartMoved(snapshot.end_offset))


class Cluster:
    """Servers, wires and a clock.  See the module."""

    def __init__(
        self,
        *voters: int,
        seed: int = 1,
        kraft_version: int = 1,
        config: RaftConfig | None = None,
        quiet: bool = True,
        sync_now: bool = False,
        bootstrap: tuple[int, ...] = (),
    ) -> None:
        self.seed = seed
        self.mono = 0.0
        self.random = random.Random(seed)
        self.config = config or RaftConfig(cluster_id=CLUSTER)
        self.kraft_version = kraft_version
        self.static_voters = (
            voter_set(*voters).without_directories() if kraft_version == 0 else VoterSet.EMPTY
        )
        self.initial = voter_set(*voters)
        self.bootstrap = bootstrap
        self.servers: dict[int, Server] = {}
        self.disks: dict[int, Disk] = {}
        self.broken: dict[ReplicaKey, Disk] = {}
        self.endpoints: dict[int, tuple[Endpoint, ...]] = {}
        self.versions: dict[int, VersionRange] = {}
        self.configs: dict[int, RaftConfig] = {}
        self.cut: set[tuple[int, int]] = set()
        self.loss = 0.0
        self.duplicates = 0.0
        self.delay = (0.001, 0.005)
        self.sync = (0.001, 0.004)
        self.sync_now = sync_now
        self.fetch_batches = 8
        self.story: list[str] = []
        self.led: set[int] = set()
        self.quiet = quiet
        self.invariants = Invariants()
        self.events = 0
        self._queue: list[tuple[float, int, Callable[[], None], int, int]] = []
        self._serial = 0
        self._life = 0
        self._ordered: dict[int, float] = {}
        for node_id in voters:
            self.format(node_id)
            self.start(node_id)

    # -------------------------------------------------------- time

    @property
    def now(self) -> Now:
        return Now(self.mono, 1_700_000_000_000 + round(self.mono * 1000))

    def chance(self, node_id: int) -> SeededRandom:
        self._life += 1
        return SeededRandom(self.seed * 1000 + node_id * 100 + self._life)

    def sync_time(self) -> float:
        return self.random.uniform(*self.sync)

    def after(
        self, delay: float, node_id: int, action: Callable[[], None], life: int, ordered: bool = False
    ) -> None:
        """Do it later, unless the node has died by then.  `ordered`: never before an earlier one."""
        when = self.mono + delay
        if ordered:
            when = max(when, self._ordered.get(node_id, 0.0))
            self._ordered[node_id] = when
        self._serial += 1
        heapq.heappush(self._queue, (when, self._serial, action, node_id, life))

    def run(self, seconds: float, until: Callable[[], bool] | None = None) -> bool:
        """Let time pass.  True as soon as `until` holds, else whether it holds at the end."""
        end = self.mono + seconds
        for _ in range(400_000):
            if until is not None and until():
                return True
            next_event = self._queue[0][0] if self._queue else float("inf")
            ticker, tick = None, float("inf")
            for server in self.servers.values():
                due = max(server.driver.next_deadline(), server.paused_until)
                if server.alive and due < tick:
                    ticker, tick = server, due
            when = min(next_event, tick)
            if when > end:
                self.mono = end
                return until is None or until()
            self.mono = max(self.mono, when)
            self.events += 1
            if next_event <= tick:
                _, _, action, node_id, life = heapq.heappop(self._queue)
                running = self.servers.get(node_id)
                if life < 0 or (running is not None and running.alive and running.life == life):
                    action()
            else:
                assert ticker is not None
                ticker.receive(Tick())
        raise AssertionError(f"no end in sight at {self.mono:.3f} s")

    def tell(self, server: Server, text: str) -> None:
        line = f"n{server.id}    {text}"
        if server.node.is_leader:
            self.led.add(server.id)
        self.story.append(line)
        if not self.quiet:
            print(f"{self.mono:8.3f} {line}")

    # -------------------------------------------------------- nodes

    def format(self, node_id: int, disk: int = 0, bootstrap: bool = True) -> Disk:
        """Give the node an empty disk, with the first voters on it where it is one of them."""
        if node_id in self.disks:
            self.broken[self.disks[node_id].key] = self.disks[node_id]
        made = Disk(key_of(node_id, disk))
        if bootstrap and self.kraft_version >= 1 and self.initial.has(made.key):
            entries = (KraftVersionEntry(1), VotersEntry(self.initial))
            made.snapshots.append((BOOTSTRAP, entries, 2))
        self.disks[node_id] = made
        return made

    def start(self, node_id: int) -> Server:
        if node_id not in self.disks:
            self.format(node_id, bootstrap=False)
        config = self.configs.get(node_id, self.config)
        if not config.bootstrap:
            known = self.bootstrap or self.initial.ids
            config = altered(config, bootstrap=tuple(bootstrap_of(i) for i in known))
        config = altered(config, versions=self.versions.get(node_id, config.versions))
        self._life += 1
        server = Server(self, node_id, self.disks[node_id], config, self._life)
        self.servers[node_id] = server
        server.receive(Started())
        return server

    def crash(self, node_id: int, reset: bool = False) -> None:
        """Power off: what was not synced is gone.  `reset`: the others see their connections break."""
        self.servers[node_id].alive = False
        self.tell(self.servers[node_id], "crash")
        if reset:
            for other in list(self.servers.values()):
                if other.alive and other.id != node_id:
                    self.after(0.001, other.id, lambda o=other: o.receive(Disconnected(node_id)), other.life)

    def restart(self, node_id: int) -> Server:
        return self.start(node_id)

    def partition(self, *groups: tuple[int, ...]) -> None:
        """Nodes of different groups cannot talk; nodes in no group can talk to nobody."""
        self.cut = set()
        ids = list(self.servers)
        for a in ids:
            for b in ids:
                if a != b and not any(a in group and b in group for group in groups):
                    self.cut.add((a, b))

    def heal(self) -> None:
        self.cut = set()
        self.loss = self.duplicates = 0.0

    # -------------------------------------------------------- wires

    def _lost(self, source: int, target: int) -> bool:
        return (source, target) in self.cut or (self.loss > 0 and self.random.random() < self.loss)

    def _carry(self, source: int, target: int, arrive: Callable[[], None], life: int) -> None:
        if not self._lost(source, target):
            self.after(self.random.uniform(*self.delay), target, arrive, life)
            if self.duplicates and self.random.random() < self.duplicates:
                self.after(self.random.uniform(0.0, 0.5), target, arrive, life)

    def transmit_request(self, source: Server, target: int, effect: Send) -> None:
        token = (source.id, source.life, effect.correlation)

        def arrive() -> None:
            server = self.servers.get(target)
            known = self.endpoints.get(target, (endpoint_of(target),))[0]
            moved = effect.endpoint not in (None, known, bootstrap_of(target))
            if server is None or not server.alive or moved:
                back = self.servers.get(source.id)
                if back is not None and back.alive and back.life == source.life:
                    back.receive(Failed(effect.correlation, "connection refused"))
                return
            if isinstance(effect.request, ProbeRequest):
                versions = server.node.core.config.versions
                self.transmit_response(server, token, ProbeResponse(ErrorCode.NONE, versions))
                return
            if isinstance(effect.request, VoteRequest) and not effect.request.pre_vote:
                server.votes[token] = True
            server.receive(Received(token, effect.request))

        self._carry(source.id, target, arrive, -1)

    def transmit_response(self, source: Server, token: tuple[int, int, int], response: Response) -> None:
        target, life, correlation = token

        def arrive() -> None:
            self.servers[target].receive(Answered(correlation, response))

        self._carry(source.id, target, arrive, life)

    # -------------------------------------------------------- for tests

    @property
    def leader(self) -> Server | None:
        """The leader of the highest epoch among the living."""
        leaders = [s for s in self.servers.values() if s.alive and s.node.is_leader]
        return max(leaders, key=lambda s: s.node.epoch, default=None)

    def elect(self, seconds: float = 20.0) -> Server:
        """Run until a leader has committed something in its epoch."""

        def done() -> bool:
            leader = self.leader
            return leader is not None and leader.node.describe(self.now).high_watermark > 0

        assert self.run(seconds, done), f"nobody was elected: {[s.node for s in self.servers.values()]}"
        leader = self.leader
        assert leader is not None
        return leader

    def propose(self, value: object, server: Server | None = None, count: int = 1) -> object:
        """Append one opaque batch on the leader; returns a token."""
        server = server or self.leader
        assert server is not None
        token = ("propose", value)
        server.receive(Propose(token, server.node.epoch, (Opaque(value, count),)))
        return token

    def write(self, value: object, seconds: float = 10.0) -> int:
        """Append and wait until every living node that can has it committed on the leader."""
        leader = self.elect()
        token = self.propose(value, leader)
        offset = leader.proposals[token]
        assert offset >= 0
        assert self.run(seconds, lambda: leader.committed > offset), f"{value!r} did not commit"
        return offset

    def ask(self, request: Request, server: Server | None = None) -> list[Response]:
        """A client's request to a node; the list gets the answer when it comes."""
        server = server or self.leader
        assert server is not None
        answers: list[Response] = []
        self.tell(server, f"<- {_short(request)}")
        server.receive(Received(_Client(self, server, answers), request))
        return answers

    def change(self, request: Request, seconds: float = 30.0) -> ChangeResponse:
        """Ask the leader for a change and wait for the answer."""
        answers = self.ask(request)
        assert self.run(seconds, lambda: bool(answers)), f"{request} was never answered"
        answer = answers[0]
        assert isinstance(answer, ChangeResponse)
        return answer


class _Client:
    """The token of a client's request; called with its answer, once."""

    def __init__(self, cluster: Cluster, server: Server, answers: list[Response]) -> None:
        self._cluster, self._server, self._answers = cluster, server, answers

    def __call__(self, response: Response) -> None:
        assert not self._answers, f"answered twice: {self._answers[0]} and {response}"
        self._answers.append(response)
        text = response.error.name
        message = getattr(response, "message", None)
        self._cluster.tell(self._server, f"answers {text}{': ' + message if message else ''}")


def _short(request: Request) -> str:
    name = type(request).__name__.removesuffix("Request")
    voter = getattr(request, "voter", None)
    if voter is not None:
        return f"{name} {voter.id}"
    target = getattr(request, "target", "")
    return f"{name} {target}".strip()


__all__ = ["Append", "Cluster", "Disk", "Server", "endpoint_of", "key_of", "voter_of", "voter_set"]
