"""Several brokers and the active controller, wired by hand: real code on both sides, no network, no clock.

What the controller decides is committed at once and reaches every broker that lives.  `settle` lets everything
happen until it is quiet: turns, fetches, heartbeats, in-sync sets, what the controller does by itself.  Disks
crash as the simulator's do: what was not synced is gone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from tests.broker.harness import Answer, Chance, Node, batch
from tests.controller.cluster import CLUSTER, Cluster

from barnabas.broker.replicas.partition import Partition
from barnabas.controller.controller import Controller
from barnabas.controller.image import MetadataImage, PartitionState
from barnabas.controller.replay import Replay
from barnabas.errors import ErrorCode, KafkaError
from barnabas.log.files.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from barnabas.model import Now, Uuid
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.codec.message import Message, MetadataRecord
from barnabas.wire.records import batches, read_records
from barnabas.wire.schemas.fetch import FetchRequest
from barnabas.wire.schemas.reassignment import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
    ReassignablePartition,
    ReassignableTopic,
)

__all__ = ["Wired"]


class _Controlled(Cluster):
    """A controller of which every record is handed on."""

    def __init__(self, told: Callable[[list[MetadataRecord]], None], **options: Any) -> None:
        self._told = told
        super().__init__(**options)

    def append(self, records: list[MetadataRecord]) -> None:
        super().append(records)
        self._told(records)

    def commit(self, request: Message, version: int | None = None) -> Any:
        decision = super().commit(request, version)
        self._told(decision.records)
        return decision


class Wired:
    """Brokers `ids`, all started.  `racks` and `directories` (how many each has) by broker."""

    def __init__(
        self,
        *ids: int,
        elr: bool = True,
        racks: dict[int, str] | None = None,
        directories: int = 1,
        seed: int = 0,
        **settings: str,
    ) -> None:
        self.settings = {"replica_lag_time_max_ms": "10000", **settings}
        self.racks = racks or {}
        self.paths = tuple(f"/data{number}" for number in range(directories))
        self.committed = Replay(MetadataImage(CLUSTER))
        self.nodes: dict[int, Node] = {}
        self.cut: set[int] = set()
        """Brokers that reach nobody, and whom nobody reaches."""
        self.elections = 0
        self.controller = _Controlled(self._committed, elr=elr, **settings)
        self.disks = {id_: MemoryDisk(seed * 100 + id_) for id_ in ids}
        self.lives = dict.fromkeys(ids, 0)
        for id_ in ids:
            self.start(id_)

    # ---- the metadata ------------------------------------------------------------------------------------

    def _committed(self, records: list[MetadataRecord]) -> None:
        if not records:
            return
        image = self.committed.image
        self.committed.apply(records, offset=image.offset + 1, epoch=1, timestamp_ms=0)
        delta = self.committed.take_delta()
        for node in self.nodes.values():
            node.broker.apply(delta, node.now)

    @property
    def image(self) -> MetadataImage:
        return self.committed.image

    def state(self, name: str = "t", index: int = 0) -> PartitionState:
        state = self.image.partition(name, index)
        assert state is not None
        return state

    def ask(self, request: Message, version: int | None = None) -> Any:
        """What the controller answers."""
        return self.controller.commit(request, version).answer

    def fail_over(self) -> None:
        """Another controller becomes active: it knows what is committed, and nothing else."""
        old = self.controller
        old.controller = Controller(old.controller.config, Chance(3), self.committed, old.now)

    # ---- brokers -----------------------------------------------------------------------------------------

    def start(self, id_: int, *, clean: bool = False) -> None:
        """The broker starts (again): logs, registration, unfenced when it is caught up."""
        known = self.image.brokers.get(id_)
        if known is not None:
            self.controller.time += 20  # its session is over
            for other in self.nodes:
                if other not in self.cut:
                    self.controller.beat(other)
        self.lives[id_] += 1
        self._format(id_)
        node = Node(self.disks[id_], self.paths, image=self.image, node_id=id_, **self.settings)
        for other in (1, 2):
            if other not in self.controller.epochs and other in self.image.brokers:
                del self.image.brokers[other]  # the harness of one broker makes them up
        node.mono = self.controller.time
        self.nodes[id_] = node
        self.controller.register(
            id_,
            incarnation=self.lives[id_],
            rack=self.racks.get(id_),
            log_dirs=[directory.directory_id for directory in node.logs.online()],
            previous_broker_epoch=known.epoch if clean and known is not None else -1,
        )
        self.controller.beat(id_)

    def _format(self, id_: int) -> None:
        """Directories with ids of their own."""
        disk = self.disks[id_]
        for number, path in enumerate(self.paths, 1):
            disk.make_directories(path)
            disk.sync_directory("/")
            if read_meta_properties(disk, path) is None:
                meta = MetaProperties("cluster", id_, Uuid.of(id_, 1000 * number))
                write_meta_properties(disk, path, meta, Now(0.0, 0))

    def crash(self, id_: int) -> None:
        """Power off: what was not synced is gone.  Nobody has noticed yet."""
        self.nodes.pop(id_, None)
        self.disks[id_].crash("all")

    def stop(self, id_: int) -> None:
        """It leaves in order: leaderships first, then it may go."""
        while not self.controller.beat(id_, want_shut_down=True).should_shut_down:
            self.settle(1)
        node = self.nodes.pop(id_)
        node.held += node.broker.stop(node.now)
        node.sync()
        epoch = self.controller.epochs[id_]
        node.logs.close(node.now, broker_epoch=epoch)

    # ---- time --------------------------------------------------------------------------------------------

    def turn(self) -> None:
        """Write, sync, and have the controller answer what it was asked."""
        for id_, node in list(self.nodes.items()):
            node.turn()
            while (node.outside.altering or node.outside.assigned) and id_ not in self.cut:
                self._controlled(node)
                node.turn()

    def _controlled(self, node: Node) -> None:
        if node.outside.altering:
            request = node.outside.altering.pop(0)
            try:
                answer = self.ask(request)
            except KafkaError:
                answer = None
            node.broker.in_sync.answered(answer, node.now)
        if node.outside.assigned:
            assigned, node.outside.assigned = node.outside.assigned, []
            told = self.ask(
                AssignReplicasToDirsRequest(
                    broker_id=node.id,
                    broker_epoch=self.controller.epochs[node.id],
                    directories=[
                        AssignReplicasToDirsRequestDirectoryData(
                            id=directory,
                            topics=[
                                AssignReplicasToDirsRequestTopicData(
                                    topic_id=topic,
                                    partitions=[
                                        AssignReplicasToDirsRequestPartitionData(partition_index=index)
                                    ],
                                )
                            ],
                        )
                        for topic, index, directory in assigned
                    ],
                )
            )
            results = {
                (topic.topic_id, row.partition_index): ErrorCode(row.error_code)
                for directory in told.directories
                for topic in directory.topics
                for row in topic.partitions
            }
            node.broker.assignments.answered(results, node.now)

    def _fetch(self, id_: int) -> None:
        node = self.nodes[id_]
        for follower in list(node.broker.followers.by_leader.values()):
            request = follower.next_request(node.now)
            if request is None:
                continue
            leader = self.nodes.get(follower.leader)
            if leader is None or id_ in self.cut or follower.leader in self.cut:
                follower.failed(node.now)
                continue
            if isinstance(request, FetchRequest):
                request.max_wait_ms = 0
            answer = leader.ask(request, 17 if isinstance(request, FetchRequest) else 11)
            follower.received(request, answer.message, node.now)

    def settle(self, rounds: int = 10, step: float = 0.3) -> None:
        """Let time pass and everything happen, `rounds` times `step` seconds."""
        for _ in range(rounds):
            self.turn()
            for id_ in list(self.nodes):
                self._fetch(id_)
            self.controller.time += step
            for id_, node in self.nodes.items():
                node.after(step)
                node.broker.maintain(node.now)
                if id_ not in self.cut:
                    with contextlib.suppress(KafkaError):  # fenced for another life: it would register
                        self.controller.beat(id_)
            due = self.controller.controller.due_records(self.controller.now, self.controller.offset)
            self.controller.append(due)
        self.turn()

    # ---- what clients and operators do -------------------------------------------------------------------

    def create(self, *assignment: list[int], name: str = "t", **settings: str) -> None:
        self.controller.assign(*assignment, name=name, **settings)
        self.settle(2)

    def move(
        self, target: list[int] | None, name: str = "t", index: int = 0, *, other_factor: bool = True
    ) -> ErrorCode:
        """Ask for these replicas (None: turn back)."""
        wish = ReassignablePartition(partition_index=index, replicas=target)
        answer = self.ask(
            AlterPartitionReassignmentsRequest(
                allow_replication_factor_change=other_factor,
                topics=[ReassignableTopic(name=name, partitions=[wish])],
            )
        )
        assert isinstance(answer, AlterPartitionReassignmentsResponse)
        return ErrorCode(answer.responses[0].partitions[0].error_code)

    def produce(
        self,
        *values: str,
        name: str = "t",
        index: int = 0,
        acks: int = -1,
        at: int | None = None,
        **numbered: Any,
    ) -> Answer:
        node = self.nodes[self.state(name, index).leader if at is None else at]
        return node.produce(batch(*values, **numbered), name, index=index, acks=acks, timeout_ms=60000)

    def partition(self, id_: int, name: str = "t", index: int = 0) -> Partition | None:
        return self.nodes[id_].broker.partition(name, index)

    def values(self, id_: int, name: str = "t", index: int = 0) -> list[str]:
        """What lies in a broker's log."""
        partition = self.partition(id_, name, index)
        assert partition is not None
        log = partition.log
        log.write()
        data = log.read(log.log_start_offset, 1 << 26, log.log_end_offset).read() if log.size else b""
        return [
            (record.value or b"").decode()
            for position, header in batches(data)
            for record in read_records(data, position, header, 1 << 20)
        ]
