"""Stories of a small quorum: elections, replication, voters and their changes.

Lines of followers about records and high watermarks are left out (`> detail` shows them).
"""

from __future__ import annotations

from raft_cluster import Cluster, endpoint_of, key_of, voter_of
from tests.stories.transcript import Transcript

from barnabas.errors import KafkaError
from barnabas.raft.entries import Batch, Opaque
from barnabas.raft.membership.recovery import Survivor, plan_recovery
from barnabas.raft.messages import (
    AddVoterRequest,
    CancelChangeRequest,
    ReassignRequest,
    RemoveVoterRequest,
    Request,
    Resign,
    UpgradeRequest,
)
from barnabas.raft.value import altered

ADDRESSES = tuple((i, (endpoint_of(i),)) for i in range(1, 10))


class RaftStory(Transcript):
    """A small quorum: the real core of each node, on a disk, a network and a clock of the test's own."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        self.told = 0
        self.detail = False
        self.disks: dict[int, int] = {}

    def followed(self) -> list[str]:
        """What the nodes did, then what was asked about them."""
        story = self.cluster.story
        fresh, self.told = story[self.told :], len(story)
        return [line for line in fresh if self._worth(line)] + super().followed()

    def _worth(self, line: str) -> bool:
        if self.detail:
            return True
        node, _, what = line.partition(" ")
        server = self.cluster.servers.get(int(node[1:]))
        leads = server is not None and what.strip() and int(node[1:]) in self.cluster.led
        return leads or not what.strip().startswith(("append", "hw"))

    # ------------------------------------------------------------ commands

    def do_voters(self, *words: str) -> None:
        options = dict(word.split("=") for word in words if "=" in word)
        ids = [int(word) for word in words if "=" not in word]
        self.cluster = Cluster(
            *ids,
            seed=int(options.get("seed", "1")),
            kraft_version=int(options.get("kraft", "1")),
            bootstrap=tuple(range(1, 10)),
        )
        if "auto-join" in options:
            self.cluster.config = altered(self.cluster.config, auto_join=True)
        self.told = 0

    def do_detail(self) -> None:
        self.detail = True

    def do_start(self, *ids: str) -> None:
        for word in ids:
            self.cluster.start(int(word))
        self.cluster.run(1.6)

    def do_elect(self) -> None:
        self.cluster.elect()
        self.cluster.run(0.1)

    def do_run(self, seconds: str) -> None:
        self.cluster.run(float(seconds))

    def do_write(self, value: str) -> None:
        self.cluster.write(value)
        self.cluster.run(0.05)

    def do_propose(self, value: str, node: str) -> None:
        """Append on a node that thinks it leads, without waiting."""
        self.cluster.propose(value, self.cluster.servers[int(node)])

    def do_crash(self, node: str, how: str = "") -> None:
        self.cluster.crash(int(node), reset=how == "reset")

    def do_restart(self, node: str) -> None:
        self.cluster.restart(int(node))

    def do_empty_disk(self, node: str) -> None:
        """Replace the disk while the node is down."""
        number = self.disks[int(node)] = self.disks.get(int(node), 0) + 1
        self.cluster.format(int(node), number, bootstrap=False)

    def do_partition(self, *words: str) -> None:
        groups = [tuple(int(i) for i in group.split()) for group in " ".join(words).split("|")]
        self.cluster.partition(*groups)

    def do_cut_off(self, node: str) -> None:
        """This node hears nobody, and nobody hears it."""
        self.cluster.partition(tuple(i for i in self.cluster.servers if i != int(node)))

    def do_heal(self) -> None:
        self.cluster.heal()

    def do_snapshot(self, node: str) -> None:
        self.cluster.servers[int(node)].snapshot()

    def _key(self, word: str) -> tuple[int, int]:
        node, _, disk = word.partition(".")
        return int(node), int(disk) if disk else self.disks.get(int(node), 0)

    def _ask(self, request: Request, words: tuple[str, ...]) -> None:
        server = None
        for word in words:
            if word.startswith("on="):
                server = self.cluster.servers[int(word[3:])]
        answers = self.cluster.ask(request, server)
        if "no-wait" not in words:
            self.cluster.run(60.0, lambda: bool(answers))
            self.cluster.run(0.05)

    def do_add(self, node: str, *words: str) -> None:
        node_id, disk = self._key(node)
        timeout = next((float(word[8:]) for word in words if word.startswith("timeout=")), 10.0)
        port = next((int(word[3:]) for word in words if word.startswith("at=")), node_id)
        request = AddVoterRequest(key_of(node_id, disk), (endpoint_of(port),), timeout, "auto" not in words)
        self._ask(request, words)

    def do_remove(self, node: str, *words: str) -> None:
        self._ask(RemoveVoterRequest(key_of(*self._key(node))), words)

    def do_cancel(self, node: str, *words: str) -> None:
        self._ask(CancelChangeRequest(key_of(*self._key(node))), words)

    def do_upgrade(self, *words: str) -> None:
        self._ask(UpgradeRequest(1), words)

    def do_reassign(self, *words: str) -> None:
        ids = tuple(int(word) for word in words if word.isdigit())
        self._ask(ReassignRequest(None if "cancel" in words else ids, ADDRESSES), words)

    def do_resign(self, node: str) -> None:
        server = self.cluster.servers[int(node)]
        server.receive(Resign(server.node.epoch))

    def do_until_done(self) -> None:
        """Until no change waits, wherever the leader is."""

        def done() -> bool:
            leader = self.cluster.leader
            return leader is not None and not leader.node.describe(self.cluster.now).waiting

        assert self.cluster.run(120.0, done)
        self.cluster.run(2.0)

    def do_describe(self) -> None:
        """What the leader says changes wait for."""
        leader = self.cluster.leader
        assert leader is not None
        for line in leader.node.describe(self.cluster.now).waiting or ["nothing waits"]:
            self.say(line)

    def do_log(self, *nodes: str) -> None:
        """What the disks of these nodes hold durably: `offset/epoch what`."""
        for node in nodes:
            words = [
                f"{batch.base_offset}/{batch.epoch} {_words(batch)}"
                for batch in self.cluster.disks[int(node)].durable
            ]
            self.say(f"n{node} log: {'  '.join(words) or 'empty'}")

    def do_recover(self, *nodes: str) -> None:
        """`barnabas quorum recover` over the logs of these nodes, which are down: the plan, carried out."""
        survivors = []
        for node in map(int, nodes):
            disk = self.cluster.disks[node]
            view = disk.log_view(self.cluster.static_voters)
            assert disk.election is not None
            survivors.append(
                Survivor(voter_of(node), view.last_epoch, view.end_offset, 0, view.voters, disk.election)
            )
        try:
            plan = plan_recovery(tuple(survivors))
        except KafkaError as refusal:
            self.say(f"refused: {refusal.message}")
            return
        disk = self.cluster.disks[plan.chosen.id]
        disk.durable = [*disk.durable, *(altered(batch, raw="bytes") for batch in plan.batches)]
        disk.election = plan.saved
        self.cluster.invariants.single_steps = False
        self.say(f"goes on from the log of {plan.chosen.id}, in epoch {plan.epoch}, voters {plan.voters}")
        for sentence in plan.lost:
            self.say(sentence)

    def do_show(self) -> None:
        for server in sorted(self.cluster.servers.values(), key=lambda s: s.id):
            self.say(f"n{server.id} {server.node if server.alive else 'down'}")


def _words(batch: Batch) -> str:
    """Values of clients, and the kinds of the quorum's own records."""
    return ",".join(
        str(entry.payload) if isinstance(entry, Opaque) else str(entry) for entry in batch.entries
    )
