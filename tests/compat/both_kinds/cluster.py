"""Four nodes of both kinds, each a controller and a broker, and the part that each kind plays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import NamedTuple

from tests.compat.conftest import kafka_class
from tests.compat.kafka_node import KafkaNode
from tests.server.quorum_processes import Member, barnabas, eventually, free_ports
from tools.peer import RELEASE

from barnabas.client.admin.admin import Admin
from barnabas.errors import ErrorCode
from barnabas.model import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition
from barnabas.wire.schemas.groups import FindCoordinatorRequest
from barnabas.wire.schemas.topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest

__all__ = ["CELLS", "OURS", "THEIRS", "Cell", "Four"]

THEIRS, OURS = "apache", "barnabas"
INTERNAL = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)
QUORUM_TOOL = "org.apache.kafka.tools.MetadataQuorumCommand"
SETTINGS = {
    "offsets_topic_replication_factor": "3",
    "transaction_state_log_replication_factor": "3",
    "transaction_state_log_min_isr": "2",
    "default_replication_factor": "3",
    "min_insync_replicas": "2",
}


class Cell(NamedTuple):
    """The kind of node that plays each part."""

    majority: str
    """Three of the four nodes are of this kind."""
    formats: str
    """It founds the cluster."""
    leads_quorum: str
    creates: str
    """It is the first that a client asks for a coordinator, so it has the internal topics created."""
    coordinates: str
    leads: str
    """It leads the partitions."""
    first: str
    """It is a client's only bootstrap address."""

    def __str__(self) -> str:
        return "-".join(part[0] for part in self)


def _orthogonal() -> list[Cell]:
    """Return eight cells in which each two parts are played by each pair of kinds."""
    kinds = (THEIRS, OURS)
    rows = [(a, b, c, a ^ b, a ^ c, b ^ c, a ^ b ^ c) for a, b, c in product((0, 1), repeat=3)]
    return [Cell(*(kinds[choice] for choice in row)) for row in rows]


CELLS = _orthogonal()


class Four:
    """A cluster of four that is laid out as a cell says."""

    def __init__(self, apache: Path, folder: Path, cell: Cell) -> None:
        self.cell = cell
        other = OURS if cell.majority == THEIRS else THEIRS
        self.kinds = {1: cell.majority, 2: cell.majority, 3: cell.majority, 4: other}
        free = free_ports(8)
        ports = {id_: (free[2 * id_ - 2], free[2 * id_ - 1]) for id_ in self.kinds}
        known = [controller for _, controller in ports.values()]
        self.nodes: dict[int, Member] = {}
        for id_, kind in self.kinds.items():
            place = folder / f"n{id_}"
            if kind == THEIRS:
                self.nodes[id_] = KafkaNode(apache, place, id_, ports[id_], known, **SETTINGS)
            else:
                self.nodes[id_] = Member(place, id_, ports[id_], known, "broker,controller", **SETTINGS)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{node.port}" for node in self.nodes.values())

    @property
    def first_address(self) -> str:
        """Return a node of the kind that clients ask first, or another where none of it runs."""
        choice = sorted(self.nodes, key=lambda id_: self.kinds[id_] != self.cell.first)
        return f"127.0.0.1:{next(node.port for id_ in choice if (node := self.nodes[id_]).alive)}"

    def of_kind(self, kind: str) -> list[int]:
        return [id_ for id_, its in self.kinds.items() if its == kind]

    @contextmanager
    def running(self) -> Iterator[Four]:
        """`with Four(...).running() as four: ...`: form the cluster, end its nodes afterwards."""
        try:
            self._form()
            yield self
        finally:
            for node in self.nodes.values():
                node.close()

    def leader(self) -> int:
        """Return who leads the quorum; wait for one."""

        def look() -> int | None:
            with Admin(self.bootstrap, timeout=5) as admin:
                found = admin.quorum().leader
                return int(found) if found > 0 and self.nodes[found].alive else None

        return int(eventually(look, 90, "a leader"))

    def serving(self, *topics: str) -> None:
        """Wait until each of the four nodes knows all of them and these topics, and every replica is in sync."""

        def known_to(node: Member) -> bool:
            with Admin(f"127.0.0.1:{node.port}", timeout=5) as admin:
                alive = {broker.id for broker in admin.describe_cluster().brokers}
                found = {topic.name: topic.partitions.values() for topic in admin.topics(internal=True)}
                rows = [row for partitions in found.values() for row in partitions]
                whole = all(set(row.isr) == set(row.replicas) for row in rows)
                return alive == set(self.nodes) and found.keys() >= set(topics) and whole

        for node in self.nodes.values():
            eventually(lambda node=node: known_to(node), 120, f"{node} knows all, all in sync")

    def placed(self, leading: str, count: int) -> list[list[int]]:
        """Return three replicas for each of `count` partitions: one of this kind, one of the other, a third."""
        first = self.of_kind(leading)
        rest = self.of_kind(OURS if leading == THEIRS else THEIRS)
        rows = []
        for number in range(count):
            turn = number % len(first)
            own = first[turn:] + first[:turn]
            pair = [own[0], rest[number % len(rest)]]
            rows.append([*pair, next(id_ for id_ in (*own[1:], *rest) if id_ not in pair)])
        return rows

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic whose partitions are led by the cell's kind; ask a node that lives.

        Apache Kafka's brokers name any broker as the controller, for seconds also one that was just killed, and
        librdkafka waits for that one.
        """
        rows = [
            CreatableReplicaAssignment(partition_index=number, broker_ids=row)
            for number, row in enumerate(self.placed(self.cell.leads, partitions))
        ]
        wanted = CreatableTopic(name=topic, num_partitions=-1, replication_factor=-1, assignments=rows)
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=10000)

        def created() -> bool:
            asked = next(node for node in self.nodes.values() if node.alive)
            code = asked.ask(request, broker=True).topics[0].error_code
            return code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)

        eventually(created, 60, f"{topic} is there")

    def coordinator(self, key: str, *, of_transactions: bool = False, at: int | None = None) -> int:
        """Return the coordinator of a group or a transactional id, asked of one node."""
        ids = [at] if at is not None else [id_ for id_, node in self.nodes.items() if node.alive]
        request = FindCoordinatorRequest(key_type=int(of_transactions), coordinator_keys=[key])

        def look() -> int | None:
            found = self.nodes[ids[0]].ask(request, broker=True, timeout=20).coordinators[0]
            return None if found.error_code != ErrorCode.NONE else int(found.node_id)

        return int(eventually(look, 60, f"node {ids[0]} names the coordinator of {key}"))

    def partition_leader(self, topic: str) -> int:
        """Return who leads partition 0 of a topic."""
        with Admin(self.bootstrap, timeout=10) as admin:
            return int(admin.describe_topic(topic).partitions[0].leader)

    # -- forming --

    def _form(self) -> None:
        cell = self.cell
        founder = self.of_kind(cell.formats)[0]
        self.nodes[founder].format("--standalone", *RELEASE)
        self.nodes[founder].start()
        eventually(lambda: self.leader() == founder, 90, "the founder leads")
        for id_, node in self.nodes.items():
            if id_ != founder:
                node.format("--no-initial-controllers")
                node.start()
        self.serving()
        wanted = founder if cell.formats == cell.leads_quorum else self.of_kind(cell.leads_quorum)[0]
        if wanted != founder:
            self._add(wanted)
            self._remove(founder)
            eventually(lambda: self.leader() == wanted, 60, "the wanted node leads")
        for id_ in self.nodes:
            if id_ != wanted:
                self._add(id_)
        assert self.kinds[self.leader()] == cell.leads_quorum
        self._create_internal()

    def _add(self, id_: int) -> None:
        """Make a node a voter, by its own kind's command."""
        node, words = self.nodes[id_], ("--bootstrap-server", self.bootstrap)
        config = ("--command-config", str(node.properties))
        if self.kinds[id_] == THEIRS:
            eventually(lambda: kafka_class(QUORUM_TOOL, *words, *config, "add-controller"), 60)
        else:
            eventually(lambda: barnabas("quorum", *words, *config, "add-controller"), 60)

        def votes() -> bool:
            with Admin(self.bootstrap, timeout=5) as admin:
                return id_ in [voter.id for voter in admin.quorum().voters]

        eventually(votes, 60, f"node {id_} votes")

    def _remove(self, id_: int) -> None:
        barnabas(
            "quorum", "--bootstrap-server", self.bootstrap, "remove-controller", "--controller-id", str(id_)
        )

    def _create_internal(self) -> None:
        """Create the internal topics as a client's first question does, then have the cell's kind lead them."""
        asked = self.of_kind(self.cell.creates)[0]
        self.coordinator("g", at=asked)
        self.coordinator("t", of_transactions=True, at=asked)
        self.serving(*INTERNAL)
        with Admin(self.bootstrap, timeout=30) as admin:
            counts = {topic.name: len(topic.partitions) for topic in admin.topics(internal=True)}
            assert [counts[name] for name in INTERNAL] == [50, 50], counts
            rows = self.placed(self.cell.coordinates, 50)
            plan: dict[TopicPartition, Sequence[int]] = {
                TopicPartition(name, number): row for name in INTERNAL for number, row in enumerate(rows)
            }
            assert admin.move(plan) == {}
            eventually(lambda: not admin.moves(), 120, "the internal topics are where they should be")
            self.serving()
            admin.elect_leaders(plan)
        for node in self.nodes:
            eventually(
                lambda node=node: self.kinds[self.coordinator("g", at=node)] == self.cell.coordinates, 60
            )
