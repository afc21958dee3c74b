"""Three brokers over disks that crash, wired by hand; what the controller decides, its real code decides.

Nothing happens by itself: `fetch` is one request and its answer, `turn` a node's writes and syncs, `settle`
lets everything happen until it is quiet.
"""

from __future__ import annotations

import contextlib
from typing import Any

from tests.broker.harness import Answer, Chance, Node, batch, registered

from barnabas.broker.replicas.partition import Partition
from barnabas.config import Config
from barnabas.controller.decisions.handing_over import depose, take_out
from barnabas.controller.decisions.isr import alter_partition
from barnabas.controller.decisions.partitions import elect_for, remove_broker
from barnabas.controller.image import ImageDelta, MetadataImage, PartitionState, Topic
from barnabas.controller.replay import partition_after
from barnabas.controller.view import BrokerContact, View
from barnabas.errors import KafkaError
from barnabas.log.results import finished
from barnabas.model import DIRECTORY_UNASSIGNED, Now, Uuid
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.metadata import PartitionChangeRecord
from barnabas.wire.records import batches, read_records
from barnabas.wire.schemas.fetch import FetchRequest

ALL = (1, 2, 3)


class Replicas:
    """Brokers 1, 2, 3 with topic `t` of one partition; 1 leads."""

    def __init__(self, replicas: tuple[int, ...] = ALL, seed: int = 0, **settings: str) -> None:
        self.settings = {"replica_lag_time_max_ms": "10000", **settings}
        self.image = MetadataImage("cluster")
        self.epoch = 10
        self.mono = 1000.0
        self.cut: set[int] = set()
        """Nodes that reach nobody."""
        self.disks = {id_: MemoryDisk(seed * 10 + id_) for id_ in replicas}
        self.nodes: dict[int, Node] = {}
        for id_ in replicas:
            self.image.brokers[id_] = registered(id_, self.epoch + id_)
        for id_ in replicas:
            self._boot(id_)
        self.topic = Topic("t", Uuid(b"replicated-topic"))
        self.topic.partitions[0] = PartitionState(
            0, replicas, replicas, replicas[0], directories=(DIRECTORY_UNASSIGNED,) * len(replicas)
        )
        self.image.topics[self.topic.id] = self.image.topics_by_name["t"] = self.topic
        delta = ImageDelta(self.image)
        delta.topics_created[self.topic.id] = self.topic
        delta.partitions[self.topic.id] = {0: None}
        self._tell(delta)
        self.settle()

    def _boot(self, id_: int) -> None:
        node = Node(self.disks[id_], image=self.image, node_id=id_, **self.settings)
        node.mono = self.mono
        self.nodes[id_] = node

    # ---- reading -----------------------------------------------------------------------------------------

    @property
    def state(self) -> PartitionState:
        return self.topic.partitions[0]

    def __getitem__(self, id_: int) -> Partition:
        partition = self.nodes[id_].broker.partition("t", 0)
        assert partition is not None
        return partition

    @property
    def leader(self) -> Node:
        return self.nodes[self.state.leader]

    def values(self, id_: int) -> list[str]:
        """What lies in a node's log."""
        log = self[id_].log
        log.write()
        data = log.read(log.log_start_offset, 1 << 26, log.log_end_offset).read() if log.size else b""
        return [
            (record.value or b"").decode()
            for position, header in batches(data)
            for record in read_records(data, position, header, 1 << 20)
        ]

    # ---- time and turns ----------------------------------------------------------------------------------

    def after(self, seconds: float) -> None:
        self.mono += seconds
        for node in self.nodes.values():
            node.after(seconds)
            node.broker.maintain(node.now)

    def turn(self, *ids: int) -> None:
        """Write, sync, and have the controller answer what it was asked."""
        for id_ in ids or tuple(self.nodes):
            node = self.nodes[id_]
            node.turn()
            while node.outside.altering:
                self.agree(node)
                node.turn()

    def fetch(self, id_: int) -> bool:
        """One request of a follower to each leader it has, and the answer; false when nothing was asked."""
        node, asked = self.nodes[id_], False
        for follower in node.broker.followers.by_leader.values():
            request = follower.next_request(node.now)
            if request is None:
                continue
            asked = True
            leader = self.nodes.get(follower.leader)
            if leader is None or id_ in self.cut or follower.leader in self.cut:
                follower.failed(node.now)
                continue
            if isinstance(request, FetchRequest):
                request.max_wait_ms = 0
            answer = leader.ask(request, 17 if isinstance(request, FetchRequest) else 11)
            follower.received(request, answer.message, node.now)
        return asked

    def settle(self, rounds: int = 8) -> None:
        for _ in range(rounds):
            self.turn()
            for id_ in list(self.nodes):
                self.fetch(id_)
            self.mono += 0.3
            for node in self.nodes.values():
                node.after(0.3)
        self.turn()

    # ---- clients -----------------------------------------------------------------------------------------

    def produce(self, *values: str, at: int | None = None, acks: int = -1, **numbered: Any) -> Answer:
        node = self.leader if at is None else self.nodes[at]
        return node.produce(batch(*values, **numbered), acks=acks, timeout_ms=60000, topic_id=self.topic.id)

    # ---- the controller ----------------------------------------------------------------------------------

    def _view(self) -> View:
        contacts = {
            id_: BrokerContact(
                self.image.brokers[id_].epoch,
                self.mono,
                0,
                0,
                incomplete=frozenset((one.topic_id, one.index) for one in node.broker.lacking),
            )
            for id_, node in self.nodes.items()
            if id_ not in self.cut
        }
        return View(self.image, Config.load({}), Chance(), contacts, Now(self.mono, 0), 0, 3)

    def report(self, id_: int) -> None:
        """A broker tells the controller which of its replicas lack records, and which leaders' logs are short."""
        view = self._view()
        refused = [(one.topic_id, one.index, epoch) for one, epoch in self.nodes[id_].broker.refusals]
        for record in finished(depose(self.image, id_, refused, view.rules)):
            self._change(record)
        for record in finished(take_out(self.image, id_, view.contacts[id_].incomplete, view.rules)):
            self._change(record)

    def agree(self, node: Node) -> None:
        """Decide the oldest AlterPartition of a node, as the controller does."""
        request = node.outside.altering.pop(0)
        try:
            decision = finished(alter_partition(self._view(), request))
        except KafkaError:
            node.broker.in_sync.answered(None, node.now)
            return
        for record in decision.records:
            self._change(record)
        node.broker.in_sync.answered(decision.answer, node.now)  # type: ignore[arg-type]

    def _change(self, record: Any) -> None:
        assert isinstance(record, PartitionChangeRecord)
        before = self.state
        self.topic.partitions[0] = partition_after(before, record)
        delta = ImageDelta(self.image)
        delta.partitions[self.topic.id] = {0: before}
        self._tell(delta)

    def _tell(self, delta: ImageDelta) -> None:
        for node in self.nodes.values():
            node.broker.apply(delta, node.now)

    def put(self, **fields: Any) -> None:
        """Change the partition by decree; a new leader means a new epoch."""
        before = self.state
        if "leader" in fields:
            fields["leader_epoch"] = before.leader_epoch + 1
        self.topic.partitions[0] = before._replace(partition_epoch=before.partition_epoch + 1, **fields)
        delta = ImageDelta(self.image)
        delta.partitions[self.topic.id] = {0: before}
        self._tell(delta)

    def fence(self, id_: int) -> None:
        """The controller takes a broker for dead."""
        for record in finished(remove_broker(self.image, id_, self._view().rules)):
            self._change(record)
        self.image.brokers[id_] = self.image.brokers[id_]._replace(fenced=True)
        self._brokers(id_)

    def _brokers(self, id_: int) -> None:
        delta = ImageDelta(self.image)
        delta.brokers.add(id_)
        self._tell(delta)

    # ---- faults ------------------------------------------------------------------------------------------

    def crash(self, id_: int) -> None:
        """Power off: what was not synced is gone."""
        with contextlib.suppress(KeyError):
            del self.nodes[id_]
        self.disks[id_].crash("all")

    def restart(self, id_: int) -> None:
        """The node starts again, registers and is unfenced."""
        self.epoch += 10
        self.image.brokers[id_] = registered(id_, self.epoch + id_)
        self._boot(id_)
        for record in finished(elect_for(self.image, id_, self._view().rules)):
            self._change(record)
        self._brokers(id_)
