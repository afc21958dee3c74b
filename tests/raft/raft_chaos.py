"""One seed, one life of a quorum: faults and membership changes at random, then peace, then progress.

The budget: whatever happens, a majority of every committed voter set keeps its disks, except that one
disk at a time may be emptied, and then only while all other voters' disks are whole.
"""

from __future__ import annotations

import random

from raft_cluster import CLUSTER, Cluster, endpoint_of

from barnabas.errors import ErrorCode
from barnabas.raft.messages import (
    AddVoterRequest,
    ReassignRequest,
    RemoveVoterRequest,
    Request,
    Resign,
    UpgradeRequest,
)
from barnabas.raft.settings import RaftConfig

NODES = (1, 2, 3, 4, 5, 6)
ADDRESSES = tuple((i, (endpoint_of(i),)) for i in NODES)


class Chaos:
    """One seed.  `run()` raises AssertionError when an invariant breaks."""

    def __init__(self, seed: int, steps: int = 60) -> None:
        self.random = random.Random(seed)
        self.steps = steps
        first = self.random.choice((1, 2, 3, 3, 5))
        config = RaftConfig(cluster_id=CLUSTER, auto_join=self.random.random() < 0.2)
        version = 0 if self.random.random() < 0.2 else 1
        self.cluster = Cluster(
            *range(1, first + 1), seed=seed, config=config, bootstrap=NODES, kraft_version=version
        )
        self.cluster.fetch_batches = self.random.choice((1, 2, 8))
        self.disk_number = dict.fromkeys(NODES, 0)
        self.emptied: int | None = None
        self.writes = 0
        self.changes = 0
        self.moves = 0
        self.log: list[str] = []

    def run(self) -> None:
        cluster = self.cluster
        for node_id in NODES:
            if node_id not in cluster.servers:
                cluster.start(node_id)
        for _ in range(self.steps):
            action = self.random.choices(*zip(*self._actions(), strict=True))[0]
            self.log.append(f"{cluster.mono:.3f} {action.__name__}")
            action()
            cluster.run(self.random.expovariate(1 / 0.4))
        self._peace()

    def _actions(self) -> list[tuple[object, float]]:
        return [
            (self.write, 6),
            (self.crash, 2),
            (self.restart, 4),
            (self.partition, 2),
            (self.lose, 1),
            (self.heal, 4),
            (self.add, 4),
            (self.remove, 4),
            (self.reassign, 2),
            (self.cancel, 0.5),
            (self.resign, 1),
            (self.upgrade, 0.5),
            (self.duplicate, 1),
            (self.pause, 1),
            (self.move, 0.5),
            (self.snapshot, 2),
            (self.empty_disk, 1),
            (self.slow_disk, 1.5),
        ]

    # ------------------------------------------------------------ what clients do

    def write(self) -> None:
        for server in self.cluster.servers.values():
            if server.alive and server.node.is_leader:
                for _ in range(self.random.randint(1, 5)):
                    self.writes += 1
                    self.cluster.propose(f"w{self.writes}", server, count=self.random.randint(1, 3))

    def add(self) -> None:
        target = self.random.choice(NODES)
        key = self.cluster.disks[target].key
        self._ask(AddVoterRequest(key, (endpoint_of(target),), 10.0, self.random.random() < 0.7))

    def remove(self) -> None:
        leader = self.cluster.leader
        if leader is not None:
            self._ask(RemoveVoterRequest(self.random.choice(leader.node.voters.keys)))

    def reassign(self) -> None:
        ids = self.random.sample(NODES, self.random.randint(1, 4))
        self._ask(ReassignRequest(tuple(sorted(ids)), ADDRESSES, 5.0))

    def cancel(self) -> None:
        self._ask(ReassignRequest(None, (), 5.0))

    def upgrade(self) -> None:
        self._ask(UpgradeRequest(1))

    def _ask(self, request: Request) -> None:
        leaders = [s for s in self.cluster.servers.values() if s.alive and s.node.is_leader]
        if leaders:
            self.changes += 1
            self.cluster.ask(request, self.random.choice(leaders))

    def resign(self) -> None:
        leader = self.cluster.leader
        if leader is not None and leader.paused_until <= self.cluster.mono:
            leader.receive(Resign(leader.node.epoch))

    # ------------------------------------------------------------ what goes wrong

    def crash(self) -> None:
        alive = [s.id for s in self.cluster.servers.values() if s.alive]
        if alive:
            self.cluster.crash(self.random.choice(alive), reset=self.random.random() < 0.5)

    def restart(self) -> None:
        dead = [s.id for s in self.cluster.servers.values() if not s.alive]
        if dead:
            self.cluster.restart(self.random.choice(dead))

    def partition(self) -> None:
        nodes = list(NODES)
        self.random.shuffle(nodes)
        at = self.random.randint(1, len(nodes) - 1)
        self.cluster.partition(tuple(nodes[:at]), tuple(nodes[at:]))
        if self.random.random() < 0.5:
            # one way only
            self.cluster.cut = {pair for pair in sorted(self.cluster.cut) if pair[0] < pair[1]}

    def lose(self) -> None:
        self.cluster.loss = self.random.choice((0.05, 0.2, 0.5))

    def duplicate(self) -> None:
        self.cluster.duplicates = 0.2

    def pause(self) -> None:
        """A node hears nothing for a while, and then everything at once."""
        alive = [s for s in self.cluster.servers.values() if s.alive]
        if alive:
            self.random.choice(alive).paused_until = self.cluster.mono + self.random.uniform(0.5, 6.0)

    def move(self) -> None:
        """A node comes back under another name; the old one leads nowhere."""
        node_id = self.random.choice(NODES)
        if self.cluster.servers[node_id].alive:
            self.cluster.crash(node_id)
        self.moves += 1
        old = self.cluster.endpoints.get(node_id, (endpoint_of(node_id),))[0]
        self.cluster.endpoints[node_id] = (old._replace(host=f"n{node_id}-{self.moves}"),)
        self.cluster.restart(node_id)

    def heal(self) -> None:
        self.cluster.heal()
        self.cluster.sync = (0.001, 0.004)

    def slow_disk(self) -> None:
        self.cluster.sync = (0.05, 0.5)

    def snapshot(self) -> None:
        now = self.cluster.mono
        alive = [s for s in self.cluster.servers.values() if s.alive and s.paused_until <= now]
        if alive:
            self.random.choice(alive).snapshot()

    def empty_disk(self) -> None:
        """Replace a disk, if none is missing: the node comes back as another replica."""
        node_id = self.random.choice(NODES)
        if not self._can_spare(node_id):
            return
        if self.cluster.servers[node_id].alive:
            self.cluster.crash(node_id)
        self.disk_number[node_id] += 1
        self.cluster.format(node_id, self.disk_number[node_id], bootstrap=False)
        self.cluster.run(self.cluster.config.fetch_timeout + 1.0)
        self.cluster.restart(node_id)

    def _can_spare(self, node_id: int) -> bool:
        """Whether every set that counts it has three voters and all the others' disks.

        Static voters are known by their ids alone: an emptied disk would vote on with what it forgot.
        """
        key = self.cluster.disks[node_id].key
        disks = [disk.key for disk in self.cluster.disks.values()]
        sets = [d for s in self.cluster.servers.values() for _, d in s.node.log_view.voter_sets.items()]
        sets += [s.node.voters for s in self.cluster.servers.values()]  # static ones too
        return all(
            not voters.has(key) or (len(voters) >= 3 and all(other in disks for other in voters.keys))
            for voters in sets
        )

    # ------------------------------------------------------------ and then

    def _peace(self) -> None:
        """Everything works again: a leader must come, and what it writes must reach everybody."""
        cluster = self.cluster
        self.heal()
        for server in list(cluster.servers.values()):
            if not server.alive:
                cluster.restart(server.id)
        cluster.run(7.0)  # longer than any pause
        offset = cluster.write("peace", 30.0)
        leader = cluster.leader
        assert leader is not None

        def all_there() -> bool:
            return all((s.node.high_watermark or 0) > offset for s in cluster.servers.values())

        assert cluster.run(40.0, all_there), f"L1: {[s.node for s in cluster.servers.values()]}"

        def settled() -> bool:
            leader = cluster.leader
            return leader is not None and not leader.node.describe(cluster.now).waiting

        if not cluster.run(60.0, settled):
            # A target may name a disk that is gone since; then it must at least be possible to cancel it.
            answer = cluster.change(ReassignRequest(None))
            assert answer.error is ErrorCode.NONE, f"L2: a change is stuck: {answer}"
            assert cluster.run(20.0, settled), "L2: a change is stuck"
