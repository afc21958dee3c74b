"""Stories of the active controller: what it decides, and what that makes of the cluster's metadata."""

from __future__ import annotations

from typing import Any

from tests.controller.cluster import Cluster
from tests.stories.transcript import Transcript, options, plain

from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import Uuid
from barnabas.wire.codec.message import Message, MetadataRecord
from barnabas.wire.schemas.brokers import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
    UnregisterBrokerRequest,
)
from barnabas.wire.schemas.configs import FeatureUpdateKey, UpdateFeaturesRequest
from barnabas.wire.schemas.reassignment import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ReassignablePartition,
    ReassignableTopic,
    TopicPartitions,
)
from barnabas.wire.schemas.topics import (
    CreatableTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)


class ControllerStory(Transcript):
    """One topic, `flights`, unless said otherwise.  What is decided is committed at once."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()

    def _commit(self, request: Message) -> Any:
        """The answer, after the records that the decision wrote."""
        try:
            decision = self.cluster.commit(request)
        except KafkaError as refusal:
            self.say(f"refused: {refusal.code.name}")
            return None
        for record in decision.records:
            self.say(f"+ {words_of(record)}")
        return decision.answer

    # ------------------------------------------------------------ brokers

    def do_brokers(self, *words: str) -> None:
        """Brokers `1 2:rack 3`, registered and unfenced; settings as name=value."""
        racks = dict(word.split(":") for word in plain(words) if ":" in word)
        ids = [int(word.split(":")[0]) for word in plain(words)]
        self.cluster = Cluster(
            *ids,
            racks={int(id_): rack for id_, rack in racks.items()},
            **{name.replace(".", "_"): value for name, value in options(words).items()},
        )

    def do_heartbeat(self, broker: str, *words: str) -> None:
        """`stop`: it wants to stop; `fence`: it asks to be fenced; `epoch=` another broker epoch than its own."""
        id_ = int(broker)
        before = self.cluster.offset
        fields: dict[str, Any] = {"want_shut_down": "stop" in words, "want_fence": "fence" in words}
        if epoch := options(words).get("epoch"):
            fields["broker_epoch"] = int(epoch)
        try:
            answer = self.cluster.beat(id_, **fields)
        except KafkaError as refusal:
            self.say(f"refused: {refusal.code.name}")
            return
        state = "may stop" if answer.should_shut_down else "fenced" if answer.is_fenced else "unfenced"
        self.say(f"broker {id_} {state}, {self.cluster.offset - before} records")

    def do_register(self, broker: str, life: str = "2") -> None:
        """It starts again: another incarnation."""
        try:
            self.cluster.register(int(broker), incarnation=int(life))
        except KafkaError as refusal:
            self.say(f"refused: {refusal.code.name}")
            return
        broker_ = self.cluster.image.brokers[int(broker)]
        self.say(f"broker {broker} registers with epoch {broker_.epoch}, fenced {broker_.fenced}")

    def do_silence(self, broker: str, seconds: str = "10") -> None:
        """Its heartbeats stay away while the others go on: the session ends."""
        silent = int(broker)
        end = self.cluster.time + float(seconds)
        while self.cluster.time < end:
            self.cluster.time += 1.0
            for id_, state in self.cluster.image.brokers.items():
                if id_ != silent and not state.fenced:
                    self.cluster.beat(id_)
            self._maintain()

    def do_unregister(self, broker: str) -> None:
        self._commit(UnregisterBrokerRequest(broker_id=int(broker)))

    def _maintain(self) -> None:
        """What the controller does by itself."""
        records = self.cluster.controller.due_records(self.cluster.now, self.cluster.offset)
        for record in records:
            self.say(f"+ {words_of(record)}")
        if records:
            self.cluster.append(records)

    # ------------------------------------------------------------ features

    def do_feature(self, name: str, level: str, *words: str) -> None:
        """Set a level; `safe-downgrade` and `unsafe-downgrade` allow a lower one, `try` changes nothing."""
        kinds = {"safe-downgrade": 2, "unsafe-downgrade": 3}
        update = FeatureUpdateKey(
            feature=name,
            max_version_level=int(level),
            upgrade_type=next((kinds[word] for word in words if word in kinds), 1),
        )
        answer = self._commit(
            UpdateFeaturesRequest(feature_updates=[update], validate_only="try" in words, timeout_ms=1000)
        )
        if answer is not None and answer.error_code:
            self.say(f"refused: {ErrorCode(answer.error_code).name}: {answer.error_message}")
        elif answer is not None:
            self.say(f"{name} is {self.cluster.image.features.get(name, 0)}")

    # ------------------------------------------------------------ topics

    def do_create(self, *words: str) -> None:
        """`create partitions=3 replicas=2`, or the replicas of each partition `1,2,3 2,3,1`; settings as a=b."""
        given = options(words)
        count, replicas = int(given.pop("partitions", "-1")), int(given.pop("replicas", "-1"))
        if assigned := [[int(id_) for id_ in word.split(",")] for word in plain(words)]:
            self.cluster.assign(*assigned, **{name.replace(".", "_"): value for name, value in given.items()})
            self.do_show()
            return
        topic = CreatableTopic(name="flights", num_partitions=count, replication_factor=replicas)
        answer = self._commit(CreateTopicsRequest(topics=[topic]))
        row = answer.topics[0]
        if row.error_code:
            self.say(f"refused: {ErrorCode(row.error_code).name}: {row.error_message}")

    def do_delete(self) -> None:
        answer = self._commit(DeleteTopicsRequest(topics=[DeleteTopicState(name="flights")]))
        if answer and answer.responses[0].error_code:
            self.say(f"refused: {ErrorCode(answer.responses[0].error_code).name}")

    def do_isr(self, *words: str) -> None:
        """The leader asks for this in-sync set: `isr 1 2`; `epoch=` another leader epoch than the present one,
        `epoch-of-2=` another broker epoch."""
        state = self.cluster.state()
        topic = self.cluster.image.topics_by_name["flights"]
        given = options(words)
        epochs = {
            id_: int(given.get(f"epoch-of-{id_}", self.cluster.epochs[int(id_)])) for id_ in plain(words)
        }
        wanted = [BrokerState(broker_id=int(id_), broker_epoch=epoch) for id_, epoch in epochs.items()]
        partition = AlterPartitionRequestPartitionData(
            partition_index=0,
            leader_epoch=int(options(words).get("epoch", state.leader_epoch)),
            new_isr_with_epochs=wanted,
            partition_epoch=state.partition_epoch,
        )
        answer = self._commit(
            AlterPartitionRequest(
                broker_id=state.leader,
                broker_epoch=self.cluster.epochs[state.leader],
                topics=[AlterPartitionRequestTopicData(topic_id=topic.id, partitions=[partition])],
            )
        )
        row = answer.topics[0].partitions[0] if answer and answer.topics else None
        if row is not None and row.error_code:
            self.say(f"refused: {ErrorCode(row.error_code).name}")

    def do_elect(self, how: str = "preferred") -> None:
        """`preferred` or `unclean`."""
        request = ElectLeadersRequest(
            election_type=0 if how == "preferred" else 1,
            topic_partitions=[TopicPartitions(topic="flights", partitions=[0])],
            timeout_ms=1000,
        )
        answer = self._commit(request)
        for result in answer.replica_election_results:
            for row in result.partition_result:
                if row.error_code:
                    self.say(f"refused: {ErrorCode(row.error_code).name}")

    def do_reassign(self, *brokers: str) -> None:
        """These replicas instead; none: cancel."""
        wanted = [int(id_) for id_ in brokers] or None
        partition = ReassignablePartition(partition_index=0, replicas=wanted)
        topic = ReassignableTopic(name="flights", partitions=[partition])
        answer = self._commit(AlterPartitionReassignmentsRequest(topics=[topic], timeout_ms=1000))
        row = answer.responses[0].partitions[0]
        if row.error_code:
            self.say(f"refused: {ErrorCode(row.error_code).name}")

    def do_show(self) -> None:
        """Each partition: its leader and epoch, replicas, in-sync set and eligible replicas."""
        topic = self.cluster.image.topics_by_name.get("flights")
        if topic is None:
            self.say("no such topic")
            return
        for index, state in sorted(topic.partitions.items()):
            elr = f" eligible {numbers(state.elr)}" if state.elr else ""
            moving = f" adding {numbers(state.adding)}" if state.adding else ""
            leaving = f" removing {numbers(state.removing)}" if state.removing else ""
            self.say(
                f"{index}: leader {state.leader} epoch {state.leader_epoch} replicas {numbers(state.replicas)}"
                f" in sync {numbers(state.isr)}{elr}{moving}{leaving}"
            )


def numbers(ids: Any) -> str:
    return "·".join(str(id_) for id_ in ids) or "none"


def words_of(record: MetadataRecord) -> str:
    """A record with the fields that say something; uuids are left out."""
    plain_one, fields = type(record)(), []
    for name in type(record).__slots__:
        value = getattr(record, name)
        if value == getattr(plain_one, name):
            continue
        if isinstance(value, list) and all(isinstance(each, int) for each in value):
            fields.append(f"{name}={numbers(value)}")
        elif not isinstance(value, list | Uuid):
            fields.append(f"{name}={value}")
    return " ".join([type(record).__name__.removesuffix("Record"), *fields])
