"""What Apache Kafka 4.3.1's own controller decided on walks at random, decided again by ours.

`apache/ControllerWalk.java` drives the replication part of Kafka's controller and prints every step; the
walks it recorded lie beside it.  Here each step is asked of our controller in the same state: the code has to
be the same, and so have the records, field by field.  Then Kafka's records are replayed, so that every step
begins where Kafka's did.

A few things are ours on purpose, and left out of the comparison: a replica that left the partition is in no
ELR any more (Kafka keeps it, though it cannot lead); min.insync.replicas is held against the number of replicas
that the partition has after the change (Kafka: that of the topic's partition 0 before it); a replica that is
assigned to a directory counts as lying there at once, so that it may lead or leaves the in-sync set in the same
record; asking for better leaders takes none away; nobody (-1) is no last known leader; and a broker that is
gone is taken for gone also where it is in no in-sync set.

Scenarios: K194, K196, K197.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.controller.cluster import CLUSTER, Chance, registration

from barnabas.config import Config
from barnabas.controller.controller import Controller
from barnabas.controller.image import MetadataImage, PartitionState
from barnabas.controller.replay import Replay
from barnabas.errors import ErrorCode, KafkaError
from barnabas.log.results import finished
from barnabas.model import Now, Uuid
from barnabas.wire import metadata
from barnabas.wire.codec.message import Message, MetadataRecord
from barnabas.wire.metadata import FeatureLevelRecord, PartitionChangeRecord
from barnabas.wire.schemas.brokers import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerHeartbeatRequest,
    BrokerState,
)
from barnabas.wire.schemas.reassignment import (
    AlterPartitionReassignmentsRequest,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
    ElectLeadersRequest,
    ReassignablePartition,
    ReassignableTopic,
    TopicPartitions,
)

WALKS = sorted((Path(__file__).parent / "apache").glob("walk-*.jsonl.gz"))
_CHANGES = (
    "isr",
    "leader",
    "replicas",
    "removing_replicas",
    "adding_replicas",
    "leader_recovery_state",
    "directories",
    "eligible_leader_replicas",
    "last_known_elr",
)


class Walk:
    """Our controller in the state that Kafka's was in."""

    def __init__(self, elr: bool, level: int) -> None:
        self.time = 1000.0
        self.controller = Controller(
            Config.load({}),
            Chance(),
            Replay(MetadataImage(CLUSTER)),
            self.now,
        )
        self.offset = 0
        self.elr = elr
        self.append([FeatureLevelRecord(name="metadata.version", feature_level=level)])
        if elr:
            self.append([FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1)])

    @property
    def now(self) -> Now:
        return Now(self.time, 0)

    def append(self, records: list[MetadataRecord]) -> None:
        self.controller.appended(records, self.offset, 1, self.now)
        self.offset += len(records)

    def state(self, number: int, index: int) -> PartitionState:
        state = self.controller.image.partition(f"t{number}", index)
        assert state is not None
        return state

    def decide(self, step: dict[str, Any]) -> tuple[str, list[MetadataRecord]]:
        """(code, records) of ours."""
        if step["do"] in ("balance", "unclean"):
            from barnabas.controller.decisions import elect_leaders as elections

            view = self.controller._view(0, self.now, self.offset)
            held = {"balance": elections.preferred_leaders, "unclean": elections.unclean_leaders}
            return "", finished(held[step["do"]](view))
        request = getattr(self, "_" + step["do"])(*step["with"])
        try:
            decision = self.controller.decide(request, request.VERSIONS[1], self.now, self.offset)
        except KafkaError as error:
            return error.code.name, []
        return _code(decision.answer), decision.records

    # What was asked, as requests.

    def _beat(self, broker: int, **fields: Any) -> Message:
        epoch = self.controller.image.brokers[broker].epoch
        return BrokerHeartbeatRequest(
            broker_id=broker, broker_epoch=epoch, current_metadata_offset=1 << 40, **fields
        )

    def _unfence(self, broker: int) -> Message:
        return self._beat(broker)

    def _fence(self, broker: int) -> Message:
        return self._beat(broker, want_fence=True)

    def _leave(self, broker: int) -> Message:
        return self._beat(broker, want_shut_down=True)

    def _lost(self, broker: int, directory: str) -> Message:
        return self._beat(broker, offline_log_dirs=[Uuid.parse(directory)])

    def _restart(self, broker: int, clean: int) -> Message:
        known = self.controller.image.brokers[broker]
        return registration(
            broker,
            incarnation=self.offset,
            previous_broker_epoch=known.epoch if clean else -1,
            log_dirs=[Uuid.of(broker, 1000), Uuid.of(broker, 2000)],
        )

    def _alter(
        self, number: int, index: int, sender: int, leader_epoch: int, epoch: int, recovery: int, isr: Any
    ) -> Message:
        data = AlterPartitionRequestPartitionData(
            partition_index=index,
            leader_epoch=leader_epoch,
            partition_epoch=epoch,
            leader_recovery_state=recovery,
            new_isr_with_epochs=[BrokerState(broker_id=b, broker_epoch=e) for b, e in isr],
        )
        topic = AlterPartitionRequestTopicData(topic_id=Uuid.of(77, number), partitions=[data])
        return AlterPartitionRequest(
            broker_id=sender, broker_epoch=self.controller.image.brokers[sender].epoch, topics=[topic]
        )

    def _reassign(self, number: int, index: int, factor: int, target: list[int] | None) -> Message:
        partition = ReassignablePartition(partition_index=index, replicas=target)
        return AlterPartitionReassignmentsRequest(
            allow_replication_factor_change=bool(factor),
            topics=[ReassignableTopic(name=f"t{number}", partitions=[partition])],
        )

    def _elect(self, number: int, index: int, unclean: int) -> Message:
        return ElectLeadersRequest(
            election_type=unclean, topic_partitions=[TopicPartitions(topic=f"t{number}", partitions=[index])]
        )

    def _assign(self, broker: int, number: int, index: int, directory: str) -> Message:
        partition = AssignReplicasToDirsRequestPartitionData(partition_index=index)
        topic = AssignReplicasToDirsRequestTopicData(topic_id=Uuid.of(77, number), partitions=[partition])
        return AssignReplicasToDirsRequest(
            broker_id=broker,
            broker_epoch=self.controller.image.brokers[broker].epoch,
            directories=[AssignReplicasToDirsRequestDirectoryData(id=Uuid.parse(directory), topics=[topic])],
        )


def _code(answer: Any) -> str:
    """The one code of an answer about one partition."""
    for fields in ("directories", "replica_election_results", "responses", "topics"):
        if hasattr(answer, fields):
            first = getattr(answer, fields)[0]
            while not hasattr(first, "error_code"):
                first = getattr(first, "partition_result", None) or getattr(first, "topics", first)
                first = first[0] if isinstance(first, list) else first.partitions[0]
            return ErrorCode(first.error_code).name
    return ""


def made(fields: dict[str, Any]) -> MetadataRecord:
    """A recorded line as a record."""
    given = {name: value for name, value in fields.items() if name != "kind"}
    for name, value in given.items():
        if name == "topic_id":
            given[name] = Uuid.parse(value)
        elif name in ("directories", "log_dirs"):
            given[name] = [Uuid.parse(text) for text in value]
    kind = fields["kind"]
    if kind == "PartitionRecord":
        replicas = given["replicas"]
        given |= {
            "isr": replicas,
            "leader": replicas[0],
            "leader_epoch": 0,
            "partition_epoch": 0,
            "removing_replicas": [],
            "adding_replicas": [],
        }
    if kind == "RegisterBrokerRecord":
        given |= {"incarnation_id": Uuid.of(1, given["broker_epoch"]), "rack": None}
    record: MetadataRecord = getattr(metadata, kind)(**given)
    return record


def changes(records: list[MetadataRecord]) -> dict[tuple[Any, int], dict[str, Any]]:
    """Partition changes by partition, each as the fields that say something."""
    return {
        (record.topic_id, record.partition_id): {
            name: getattr(record, name)
            for name in _CHANGES
            if getattr(record, name) not in (None, -2 if name == "leader" else None)
            and (name, getattr(record, name)) != ("leader_recovery_state", -1)
        }
        for record in records
        if isinstance(record, PartitionChangeRecord)
    }


def ours_on_purpose(walk: Walk, step: dict[str, Any], where: tuple[Any, int], change: dict[str, Any]) -> bool:
    """Whether what becomes of this partition is one of the things in which we differ."""
    topic = walk.controller.image.topics[where[0]]
    before = topic.partitions[where[1]]
    replicas = change.get("replicas", before.replicas)
    if not {*before.elr, *change.get("eligible_leader_replicas", ())} <= set(replicas):
        return True
    least = int(walk.controller.image.topic_config(topic.name).get("min.insync.replicas", "1"))
    if walk.elr and min(least, len(before.replicas)) != min(least, len(replicas)):
        return True
    if step["do"] == "assign":
        broker, _, _, directory = step["with"]
        known = walk.controller.image.brokers[broker].directories
        return Uuid.parse(directory) not in known or before.leader < 0
    if change.get("last_known_elr") == [-1] or (
        step["do"] in ("balance", "elect") and change.get("leader") == -1
    ):
        return True
    return step["do"] in ("restart", "lost") and step["with"][0] not in before.isr


def steps(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt") as lines:
        for line in lines:
            yield json.loads(line)


@pytest.mark.parametrize("path", WALKS, ids=lambda path: path.name.removesuffix(".jsonl.gz"))
def test_every_step_is_decided_as_apache_kafka_decided_it(path: Path) -> None:
    first, *rest = steps(path)
    walk = Walk(elr="elr" in path.name, level=int(path.name.split("-")[1].removeprefix("mv")))
    walk.append([made(fields) for fields in first["records"]])
    compared: Counter[str] = Counter()
    left_out = 0
    for number, step in enumerate(rest):
        records = [made(fields) for fields in step["records"]]
        if step["do"] != "config":
            code, ours = walk.decide(step)
            wanted, found = changes(records), changes(ours)
            for where in {*wanted, *found}:
                if ours_on_purpose(walk, step, where, wanted.get(where, {})):
                    left_out += 1
                    continue
                told = f"step {number}: {step}"
                assert found.get(where) == wanted.get(where), told
                compared[step["do"]] += 1
            if not wanted.keys() ^ found.keys():
                assert code == step["code"], f"step {number}: {step}"
        walk.append(records)
    assert set(compared) >= {"alter", "reassign", "fence", "unfence", "restart", "elect"}
    assert compared.total() > 3 * left_out
