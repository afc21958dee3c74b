"""One broker over a disk of the test's choice, and short ways to ask it things.

Every request and every answer goes through the codec of the version under test, as over a socket: what a
version cannot carry, a test cannot see.
"""

from __future__ import annotations

import random
from functools import partial
from types import SimpleNamespace
from typing import Any

from tests.frames import frame

from barnabas.broker.ports import Authorizer
from barnabas.broker.purgatory import Purgatory, Waiting
from barnabas.broker.replicas.broker import Broker, Work
from barnabas.broker.replicas.partition import Partition
from barnabas.broker.requests.delete_records import delete_records
from barnabas.broker.requests.describe_producers import describe_producers
from barnabas.broker.requests.fetch import Fetches
from barnabas.broker.requests.leader_epochs import offsets_for_leader_epoch
from barnabas.broker.requests.list_offsets import list_offsets
from barnabas.broker.requests.produce import Produces
from barnabas.broker.requests.produced import Produced, Several
from barnabas.broker.requests.producer_ids import init_producer_id
from barnabas.broker.requests.txn_markers import append_marker, write_txn_markers
from barnabas.broker.requests.validation import PACKED_AT_ONCE, RECORDS_WALKED_AT_ONCE, UNPACKED_AT_ONCE
from barnabas.broker.txn_verification import Question
from barnabas.config import Config
from barnabas.controller.image import (
    BrokerEndpoint,
    BrokerState,
    ImageDelta,
    MetadataImage,
    PartitionState,
    Topic,
)
from barnabas.errors import BarnabasError, ConfigError, ErrorCode, StorageError
from barnabas.log.cleaning.compaction import CompactionStatistics
from barnabas.log.directories.log_directories import LogDirectories
from barnabas.log.files.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from barnabas.model import DIRECTORY_UNASSIGNED, ZERO_UUID, Now, TopicPartition, Uuid
from barnabas.wire.codec.message import Message, decode, encode
from barnabas.wire.frame import read_request_header, read_response_header
from barnabas.wire.plane.fetch_asked import FetchFrames, Terms
from barnabas.wire.plane.fetch_told import FetchAnswer, write_fetch_answer
from barnabas.wire.plane.objects import asked_by, produced_by, response_to_producer
from barnabas.wire.plane.produce_asked import ProduceRows, terms_of, unpack
from barnabas.wire.plane.produce_asked import Terms as ProduceTerms
from barnabas.wire.plane.produce_told import ProduceAnswer
from barnabas.wire.records import Record, write_batch
from barnabas.wire.schemas.brokers import AlterPartitionRequest
from barnabas.wire.schemas.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from barnabas.wire.schemas.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

WALL = 1_700_000_000_000
PAGE_CACHE = str((1 << 63) - 1)


class Chance:
    """Randomness with a fixed seed."""

    def __init__(self, seed: int = 7) -> None:
        self._random = random.Random(seed)

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)

    def integer(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def uuid(self) -> Uuid:
        raw = bytearray(self._random.randbytes(16))
        raw[0] = raw[0] & 0x7F | 1
        return Uuid(bytes(raw))


class World:
    """What the broker asks of its node, written down."""

    def __init__(self) -> None:
        self.blocks_asked = 0
        self.bytes_held = 0
        self.failed: list[tuple[str, StorageError]] = []
        self.assigned: list[tuple[Uuid, int, Uuid]] = []
        self.refused: list[tuple[str, str]] = []
        self.altering: list[AlterPartitionRequest] = []
        self.cut: list[tuple[str, int, int, int]] = []
        self.corrupt: list[tuple[str, int, str]] = []
        self.damages: list[tuple[str, int, int]] = []
        self.anew: list[str] = []
        self.remade: list[tuple[str, list[str]]] = []
        self.short_leaders: list[tuple[int, int, int, bool]] = []
        self.whole: list[str] = []
        self.stood_down: list[str] = []
        self.short: list[str] = []
        self.aside: list[tuple[str, str]] = []
        self.adoptions: list[str] = []
        self.rooms: list[tuple[str, bool]] = []
        self.speeds: list[bool] = []
        self.no_room: list[StorageError] = []
        self.compactions: list[tuple[TopicPartition, CompactionStatistics]] = []
        self.uncompacted: list[tuple[TopicPartition, str]] = []
        self.questions: list[Question] = []

    def allocate_producer_ids(self) -> None:
        self.blocks_asked += 1

    def held(self, connection: int, size: int) -> None:
        self.bytes_held += size

    def directory_failed(self, directory: Any, error: StorageError) -> None:
        self.failed.append((directory.path, error))

    def room_changed(self, directory: Any, space: Any) -> None:
        self.rooms.append((directory.path, space.full))

    def speed_changed(self, directory: Any) -> None:
        self.speeds.append(directory.slow)

    def not_hosted(self, error: StorageError) -> None:
        if not error.full:
            raise error
        self.no_room.append(error)

    def setting_refused(self, topic: str, error: ConfigError) -> None:
        self.refused.append((topic, error.message))

    def assign_directories(self, assignments: Any) -> None:
        self.assigned.extend(assignments)

    def fetch_from(self, leader: int) -> None:
        pass

    def alter_partitions(self, request: AlterPartitionRequest) -> None:
        self.altering.append(request)

    def verify_transaction(self, question: Question) -> None:
        self.questions.append(question)

    def not_replicated(self, topic: str, index: int, error: BarnabasError) -> None:
        self.corrupt.append((topic, index, error.message))

    def leader_is_short(self, tp: Any, leader: int, end: int, committed: int, *, refused: bool) -> None:
        self.short_leaders.append((leader, end, committed, refused))

    def truncated(self, topic: str, index: int, before: int, end: int) -> None:
        self.cut.append((topic, index, before, end))

    def descriptors_short(self, error: StorageError) -> None:
        self.short.append(error.message)

    def set_aside(self, tp: TopicPartition, path: str, topic_id: Uuid | None) -> None:
        self.aside.append((str(tp), path))

    def adopted(self, log: Any) -> None:
        self.adoptions.append(log.path)

    def index_remade(self, log: Any, files: Any) -> None:
        self.remade.append((log.path, list(files)))

    def damaged(self, log: Any, found: Any) -> None:
        self.damages += [(log.path, damage.start, damage.end) for damage in found]

    def fetched_anew(self, log: Any, gone: Any) -> None:
        self.anew.append(log.path)

    def whole_again(self, log: Any) -> None:
        self.whole.append(log.path)

    def stand_down(self, log: Any) -> None:
        self.stood_down.append(log.path)

    def compacted(self, tp: TopicPartition, done: CompactionStatistics, seconds: float) -> None:
        self.compactions.append((tp, done))

    def not_compacted(self, tp: TopicPartition, error: BarnabasError) -> None:
        self.uncompacted.append((tp, error.message))


def registered(node: int, epoch: int) -> BrokerState:
    """A broker as the metadata knows it, unfenced."""
    endpoints = (BrokerEndpoint("PLAINTEXT", f"host{node}", 9090 + node, 0),)
    return BrokerState(node, epoch, ZERO_UUID, endpoints, {}, f"rack{node}", False, False, (), ())


def told(answer: FetchAnswer, version: int) -> FetchResponse:
    """Read an answer to a fetch back from its frame."""
    parts: list[Any] = []
    size = write_fetch_answer(parts, 77, version, answer)
    whole = b"".join(part.read() if hasattr(part, "read") else bytes(part) for part in parts)
    assert size == len(whole) == 4 + int.from_bytes(whole[:4], "big")
    correlation, body = read_response_header(whole, 1, version, 4)
    assert correlation == 77
    message, end = decode(FetchResponse, memoryview(whole), version, body)
    assert end == len(whole)
    return message


class Node:
    """A broker with id 1 (a registered broker 2 exists in the metadata), and a clock that tests move.

    While it `goes_on`, the fetches on the same terms are served by what served the last one, as those of a
    connection are.
    """

    goes_on = True

    def __init__(
        self,
        disk: Any,
        paths: tuple[str, ...] = ("/data",),
        *,
        authorizer: Authorizer | None = None,
        image: MetadataImage | None = None,
        node_id: int = 1,
        **properties: str,
    ) -> None:
        self.disk = disk
        self.id = node_id
        self.mono = 1000.0
        self.wall = WALL
        settings = {name.replace("_", "."): value for name, value in properties.items()}
        self.config = Config.load(settings)
        self.chance = Chance()
        self.image = MetadataImage("cluster") if image is None else image
        for node in (1, 2):
            self.image.brokers.setdefault(node, registered(node, 10 + node))
        for path in paths:
            disk.make_directories(path)
            disk.sync_directory(path.rpartition("/")[0] or "/")
            if read_meta_properties(disk, path) is None:
                write_meta_properties(
                    disk, path, MetaProperties("cluster", node_id, self.chance.uuid()), self.now
                )
        self.logs = LogDirectories.open(
            disk,
            paths,
            cluster_id="cluster",
            node_id=node_id,
            config_for=lambda topic: self.config.log_config(),
            randomness=self.chance,
            now=self.now,
        )
        self.outside = World()
        self.broker = Broker(
            self.config,
            node_id,
            self.logs,
            self.image,
            host=self.outside,
            random=self.chance,
            authorizer=authorizer,
        )
        self.broker.start(self.now)
        self.held: list[Work] = []
        self.fetches: dict[Terms, Fetches] = {}
        self._frames = FetchFrames(1 << 20)

    @property
    def now(self) -> Now:
        return Now(self.mono, self.wall)

    # ---- metadata ----------------------------------------------------------------------------------------

    def create(
        self,
        name: str,
        partitions: int = 1,
        *,
        replicas: tuple[int, ...] = (1,),
        leader: int = 1,
        isr: tuple[int, ...] | None = None,
        **configs: str,
    ) -> Partition:
        """Create a topic as the controller would; returns its first partition on this node."""
        delta = ImageDelta(self.image)
        topic = Topic(name, self.chance.uuid())
        for index in range(partitions):
            topic.partitions[index] = PartitionState(
                index,
                replicas,
                replicas if isr is None else isr,
                leader,
                directories=(DIRECTORY_UNASSIGNED,) * len(replicas),
            )
        self.image.topics[topic.id] = self.image.topics_by_name[name] = topic
        if configs:
            self.image.configs[2, name] = {k.replace("_", "."): v for k, v in configs.items()}
        delta.topics_created[topic.id] = topic
        delta.partitions[topic.id] = dict.fromkeys(topic.partitions)
        self.broker.apply(delta, self.now)
        self.turn()
        return self.broker.partition(name, 0)  # type: ignore[return-value]

    def change(self, name: str, index: int = 0, **fields: Any) -> None:
        """Change a partition in the metadata (leader=, isr=, ...) and let the broker follow."""
        topic = self.image.topics_by_name[name]
        before = topic.partitions[index]
        state = before._replace(partition_epoch=before.partition_epoch + 1, **fields)
        if "leader" in fields and "leader_epoch" not in fields:
            state = state._replace(leader_epoch=before.leader_epoch + 1)
        topic.partitions[index] = state
        delta = ImageDelta(self.image)
        delta.partitions[topic.id] = {index: before}
        self.broker.apply(delta, self.now)

    def delete(self, name: str) -> None:
        topic = self.image.topics_by_name.pop(name)
        del self.image.topics[topic.id]
        delta = ImageDelta(self.image)
        delta.topics_deleted[topic.id] = topic
        delta.partitions[topic.id] = dict(topic.partitions)
        self.broker.apply(delta, self.now)

    def configure(self, name: str, **configs: str) -> None:
        self.image.configs[2, name] = {k.replace("_", "."): v for k, v in configs.items()}
        delta = ImageDelta(self.image)
        delta.configs.add((2, name))
        self.broker.apply(delta, self.now)

    def topic_id(self, name: str) -> Uuid:
        return self.image.topics_by_name[name].id

    # ---- time and turns ----------------------------------------------------------------------------------

    def write(self) -> None:
        """End a turn; the syncs it asks for are held back."""
        self.held += self.broker.end_loop_step(self.now)

    def sync(self, error: StorageError | None = None) -> None:
        """Run the syncs that were held back, and those that follow from them."""
        while self.held:
            sync = self.held.pop(0)
            failure = error
            if failure is None:
                try:
                    sync.run()
                except StorageError as caught:
                    failure = caught
            self.broker.synced(sync, failure, self.now)
            self.write()

    def turn(self) -> None:
        """A whole turn: what the metadata say is carried out; then written, synced, answered."""
        while True:
            while self.broker.reconciler.ready:
                self.broker.reconciler.step(self.now)
            self.write()
            self.sync()
            if not self.broker.reconciler:
                break

    def after(self, seconds: float) -> None:
        """Let time pass, and what is due happen."""
        self.mono += seconds
        self.wall += int(seconds * 1000)
        self.broker.tick(self.now)

    # ---- asking ------------------------------------------------------------------------------------------

    def context(self, client_id: str | None = "test", **more: Any) -> Any:
        values: dict[str, Any] = {
            "connection_id": 1,
            "request_id": 1,
            "version": 0,
            "client_id": client_id,
            "principal": "User:ANONYMOUS",
            "listener": "PLAINTEXT",
            "client_host": "127.0.0.1",
            "local_host": "127.0.0.1",
            "local_port": 9092,
        }
        return SimpleNamespace(**{**values, **more})

    def ask(self, request: Message, version: int, client_id: str | None = "test", **more: Any) -> Answer:
        """Send a request through the codec; the answer may come later."""
        if isinstance(request, FetchRequest):
            return self._fetch(request, version, client_id)
        if isinstance(request, ProduceRequest):
            return self._produce(request, version, self.context(client_id, **more))
        request, _ = decode(type(request), memoryview(bytearray(encode(request, version))), version)
        handlers = {
            2: list_offsets,
            21: delete_records,
            22: init_producer_id,
            23: offsets_for_leader_epoch,
            27: self._write_markers,
            61: describe_producers,
        }
        answer = Answer(version)
        given = handlers[type(request).KEY](  # type: ignore[index, operator]
            self.broker, self.context(client_id), request, version, self.now
        )
        answer.given(given)
        return answer

    def _fetch(self, request: FetchRequest, version: int, client_id: str | None) -> Answer:
        """Send a fetch as its frame, from which rows are read, as a connection does."""
        body = memoryview(frame(request, version, client_id=client_id))[4:]
        asked = self._frames.read(body, 0, len(body)) if self._frames.terms is not None else None
        if asked is None:
            asked = self._frames.learn(body)
        terms = self._frames.terms
        if asked is None or terms is None:
            header, _ = read_request_header(body)
            terms, asked = asked_by(header, request)
        answer = Answer(version)
        fetches = self.fetches.get(terms) if self.goes_on else None
        if fetches is None:
            fetches = self.fetches[terms] = Fetches(self.broker, self.context(client_id), terms)
        answer.given(fetches.serve(asked, self.now))
        return answer

    def _produce(self, request: ProduceRequest, version: int, context: Any) -> Answer:
        """Send a Produce as its frame, from which rows are read, as a connection does."""
        body = memoryview(bytearray(frame(request, version, client_id=context.client_id)))[4:]
        found = ProduceRows(RECORDS_WALKED_AT_ONCE, 1000, PACKED_AT_ONCE)
        found.one(body, 0, len(body))
        unpack(found, UNPACKED_AT_ONCE)
        if found.requests:
            header, terms = terms_of(found.head)
        else:
            header, at = read_request_header(body)
            terms, found = produced_by(header, decode(ProduceRequest, body, version, at)[0])
        answer = Answer(version)
        run = Alone(self.broker.purgatory, terms, self.now, answer)
        Produces(self.broker, context, terms).serve(found, run, self.now)
        if terms.acks or run.open:
            answer.waiting = run
        if not run.open:
            run.look()
        return answer

    def _write_markers(self, broker: Broker, context: Any, request: Any, version: int, now: Now) -> Any:
        return write_txn_markers(broker, context, request, now, partial(append_marker, broker))

    def produce(
        self,
        batch: bytes | bytearray | None,
        topic: str = "t",
        *,
        index: int = 0,
        acks: int = -1,
        timeout_ms: int = 1000,
        version: int = 12,
        client_id: str | None = "test",
        topic_id: Uuid | None = None,
        transactional_id: str | None = None,
    ) -> Answer:
        """Send a Produce of one batch to one partition."""
        known = self.image.topics_by_name.get(topic)
        if topic_id is None:
            topic_id = known.id if known is not None else ZERO_UUID
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=[
                TopicProduceData(
                    name=topic,
                    topic_id=topic_id,
                    partition_data=[PartitionProduceData(index=index, records=batch)],
                )
            ],
        )
        return self.ask(request, version, client_id)

    def append(self, batch: bytes | bytearray, topic: str = "t", **more: Any) -> PartitionProduceResponse:
        """Produce and let it be safe; returns the partition's answer."""
        answer = self.produce(batch, topic, **more)
        self.turn()
        return answer.produced

    def fetch(
        self,
        positions: dict[tuple[str, int], int] | None = None,
        *,
        version: int = 12,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 1 << 26,
        partition_max_bytes: int = 1 << 20,
        session: tuple[int, int] = (0, -1),
        forget: tuple[tuple[str, int], ...] = (),
        isolation: int = 0,
        epoch: int = -1,
        last_fetched_epoch: int = -1,
        replica: int = -1,
        log_start: int = -1,
    ) -> Answer:
        """Send a Fetch; `positions` maps (topic, partition) to the offset."""
        topics = [
            FetchTopic(
                topic=topic,
                topic_id=self.topic_id(topic) if version >= 13 else ZERO_UUID,
                partitions=[
                    FetchPartition(
                        partition=index,
                        fetch_offset=offset,
                        partition_max_bytes=partition_max_bytes,
                        current_leader_epoch=epoch,
                        last_fetched_epoch=last_fetched_epoch,
                        log_start_offset=log_start,
                    )
                ],
            )
            for (topic, index), offset in (positions if positions is not None else {("t", 0): 0}).items()
        ]
        forgotten = [
            ForgottenTopic(
                topic=topic,
                topic_id=self.topic_id(topic) if version >= 13 else ZERO_UUID,
                partitions=[index],
            )
            for topic, index in forget
        ]
        request = FetchRequest(
            replica_id=replica if version < 15 else -1,
            replica_state=ReplicaState(replica_id=replica if version >= 15 else -1),
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=isolation,
            session_id=session[0],
            session_epoch=session[1],
            topics=topics,
            forgotten_topics_data=forgotten,
        )
        return self.ask(request, version)


class Alone(Produced):
    """A Produce request whose answer is for a test: `on_done` gets it, or with acks=0 why its connection ends."""

    def __init__(self, purgatory: Purgatory, terms: ProduceTerms, now: Now, answer: Answer) -> None:
        super().__init__(purgatory, terms, now)
        self.on_done = answer.take

    def look(self) -> None:
        on_done = self.on_done
        if self.open or on_done is None or (self.terms.acks and not self.replies):
            return
        self.unpark()
        self.on_done, self.done = None, True
        if not self.terms.acks:
            for batches in self.batches:
                if batches.error:
                    on_done(ErrorCode(batches.error))
            return
        (reply,) = self.replies
        if isinstance(reply, Several):
            told = reply.answer()
        else:
            batches, _, first, time = reply
            told = ProduceAnswer([(batches.destination.topic, [batches.row(first, time)])])
        on_done(response_to_producer(self.terms.version, told))

    def cancel(self) -> None:
        self.on_done = None
        super().cancel()


class Answer:
    """An answer that came, or may still come; read back from its bytes."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.waiting: Waiting | None = None
        self.refused: ErrorCode | None = None
        """Why a Produce with acks=0 ended its connection."""
        self.count = 0
        self._message: Any = None

    def given(self, given: Any) -> None:
        """A handler returned this: the answer, or what will complete it."""
        if isinstance(given, Waiting):
            self.waiting = given
            given.on_done = self.take
        elif given is not None:
            self.take(given)

    def take(self, message: Any) -> None:
        if isinstance(message, ErrorCode):
            self.refused = message
            return
        if isinstance(message, FetchAnswer):
            message = told(message, self.version)
        self.count += 1
        self._message = decode(type(message), encode(message, self.version), self.version)[0]

    @property
    def here(self) -> bool:
        return self.count > 0

    @property
    def message(self) -> Any:
        assert self.count == 1, f"{self.count} answers"
        return self._message

    @property
    def produced(self) -> PartitionProduceResponse:
        """The answer for the only partition of a Produce."""
        message: ProduceResponse = self.message
        return message.responses[0].partition_responses[0]

    @property
    def error(self) -> ErrorCode:
        return ErrorCode(self.produced.error_code)

    @property
    def fetched(self) -> Any:
        """The answer for the first partition of a Fetch."""
        message: FetchResponse = self.message
        return message.responses[0].partitions[0]

    @property
    def partitions(self) -> dict[tuple[Any, int], Any]:
        """The partitions of a Fetch answer, in their order, by (topic name or id, index)."""
        return {
            (topic.topic if self.version < 13 else topic.topic_id, data.partition_index): data
            for topic in self.message.responses
            for data in topic.partitions
        }


def batch(*values: str | bytes | None, **header: Any) -> bytearray:
    """A batch of records with these values, stamped WALL unless `at` says otherwise."""
    at = header.pop("at", WALL)
    key = header.pop("key", None)
    records = [
        Record(offset, at, key, value.encode() if isinstance(value, str) else value)
        for offset, value in enumerate(values)
    ]
    return write_batch(records, **header)
