"""A controller with some brokers, for tests of its decisions."""

from __future__ import annotations

import random
from typing import Any, TypeVar

from barnabas.config import Config
from barnabas.controller.controller import Controller
from barnabas.controller.feature_levels import bootstrap_levels, bootstrap_records, supported
from barnabas.controller.image import MetadataImage, PartitionState
from barnabas.controller.replay import Replay
from barnabas.controller.view import Decision
from barnabas.model import Now, Uuid
from barnabas.wire.codec.message import Message, MetadataRecord
from barnabas.wire.schemas.brokers import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationRequestFeature,
    BrokerRegistrationRequestListener,
    BrokerRegistrationResponse,
)
from barnabas.wire.schemas.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

CLUSTER = "5L6g3nShT-eMCtK--X86sw"
M = TypeVar("M", bound=Message)


class Chance:
    """Seeded randomness."""

    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)

    def integer(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def uuid(self) -> Uuid:
        return Uuid(self._random.randbytes(16))


def directory(broker: int) -> Uuid:
    return Uuid.of(broker, 1000)


class Cluster:
    """The active controller of a cluster: what it decides is committed at once."""

    def __init__(self, *brokers: int, elr: bool = True, racks: dict[int, str] | None = None, **settings: str):
        self.time = 100.0
        self.offset = 0
        config = Config.load({name.replace("_", "."): value for name, value in settings.items()})
        self.controller = Controller(config, Chance(), Replay(MetadataImage(CLUSTER)), self.now)
        levels = bootstrap_levels(given={} if elr else {"eligible.leader.replicas.version": 0})
        self.append(self.controller.first_records(bootstrap_records(levels)))
        self.epochs: dict[int, int] = {}
        for broker in brokers:
            self.register(broker, rack=(racks or {}).get(broker))
            self.beat(broker)

    def new_controller(self) -> None:
        """Another controller becomes active, which has heard from nobody."""
        self.controller = Controller(self.controller.config, Chance(), Replay(self.image), self.now)

    @property
    def now(self) -> Now:
        return Now(self.time, int(self.time * 1000))

    @property
    def image(self) -> MetadataImage:
        return self.controller.image

    def append(self, records: list[MetadataRecord]) -> None:
        self.controller.appended(records, self.offset, 1, self.now)
        self.offset += len(records)

    def decide(self, request: Message, version: int | None = None) -> Decision:
        if version is None:
            version = request.VERSIONS[1]
        return self.controller.decide(request, version, self.now, self.offset)

    def commit(self, request: Message, version: int | None = None) -> Decision:
        decision = self.decide(request, version)
        self.controller.accepted(decision, self.offset, 1, self.now)
        self.offset += len(decision.records)
        return decision

    def answer(self, kind: type[M], request: Message, version: int | None = None) -> M:
        answer = self.commit(request, version).answer
        assert isinstance(answer, kind)
        return answer

    # brokers

    def register(
        self, broker: int, *, incarnation: int = 1, rack: str | None = None, **fields: Any
    ) -> BrokerRegistrationResponse:
        answer = self.answer(BrokerRegistrationResponse, registration(broker, incarnation, rack, **fields))
        self.epochs[broker] = answer.broker_epoch
        return answer

    def beat(self, broker: int, **fields: Any) -> BrokerHeartbeatResponse:
        asked: dict[str, Any] = {
            "broker_id": broker,
            "broker_epoch": self.epochs[broker],
            "current_metadata_offset": self.offset - 1,
            **fields,
        }
        return self.answer(BrokerHeartbeatResponse, BrokerHeartbeatRequest(**asked))

    # topics

    def create(self, name: str = "flights", partitions: int = 1, replicas: int = -1) -> None:
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas)
        answer = self.answer(CreateTopicsResponse, CreateTopicsRequest(topics=[topic]))
        assert answer.topics[0].error_code == 0, answer.topics[0].error_message

    def assign(self, *assignment: list[int], name: str = "flights", **settings: str) -> None:
        answer = self.answer(
            CreateTopicsResponse, CreateTopicsRequest(topics=[assigned(name, *assignment, **settings)])
        )
        assert answer.topics[0].error_code == 0, answer.topics[0].error_message

    def state(self, name: str = "flights", index: int = 0) -> PartitionState:
        state = self.image.partition(name, index)
        assert state is not None
        return state


def assigned(name: str, *assignment: list[int], **settings: str) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in enumerate(assignment)
        ],
        configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in settings.items()
        ],
    )


def registration(
    broker: int, incarnation: int = 1, rack: str | None = None, **fields: Any
) -> BrokerRegistrationRequest:
    asked: dict[str, Any] = {
        "broker_id": broker,
        "cluster_id": CLUSTER,
        "incarnation_id": Uuid.of(broker, incarnation),
        "listeners": [BrokerRegistrationRequestListener(name="PLAINTEXT", host=f"b{broker}", port=9092)],
        "features": [
            BrokerRegistrationRequestFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in supported().items()
        ],
        "rack": rack,
        "log_dirs": [directory(broker)],
        **fields,
    }
    return BrokerRegistrationRequest(**asked)


def replay(image: MetadataImage, records: list[MetadataRecord]) -> MetadataImage:
    other = Replay(image.copy())
    other.apply(records, offset=image.offset + 1, epoch=1, timestamp_ms=0)
    return other.image
