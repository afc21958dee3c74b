"""The rest of the node, as its broker sees it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from barnabas.errors import BarnabasError, ConfigError, ErrorCode, KafkaError, StorageError
from barnabas.model import DirectoryId, NodeId, Offset, TopicId, TopicPartition
from barnabas.server.loop.memory import MemoryBudget
from barnabas.server.loop.runtime import Runtime
from barnabas.server.observe import events
from barnabas.server.replication.lifecycle import BrokerLifecycle
from barnabas.server.replication.replica_fetcher import Fetchers
from barnabas.server.replication.txn_verifier import TransactionVerifier
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.brokers import AlterPartitionRequest, AlterPartitionResponse
from barnabas.wire.schemas.reassignment import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from barnabas.wire.schemas.reassignment import AssignReplicasToDirsRequestDirectoryData as DirectoryData
from barnabas.wire.schemas.reassignment import AssignReplicasToDirsRequestPartitionData as PartitionData
from barnabas.wire.schemas.reassignment import AssignReplicasToDirsRequestTopicData as TopicData
from barnabas.wire.schemas.transactions import AllocateProducerIdsRequest, AllocateProducerIdsResponse

if TYPE_CHECKING:
    from barnabas.broker.ports import DirectorySpace
    from barnabas.broker.replicas.broker import Broker
    from barnabas.broker.txn_verification import Question
    from barnabas.log.cleaning.compaction import CompactionStatistics
    from barnabas.log.directories.log_directories import LogDirectories
    from barnabas.log.directories.log_directory import LogDirectory
    from barnabas.log.log import Log
    from barnabas.log.segments.damage import Damage

__all__ = ["NodeHost"]

NOT_REPLICATED = events.register(
    "replica.refused", logging.ERROR, "a leader sent what cannot be appended; it is fetched again"
)
FETCHED_ANEW = events.register(
    "replica.fetched-anew", logging.WARNING, "a replica that was damaged is fetched again from its leader"
)
WHOLE_AGAIN = events.register(
    "replica.whole-again", logging.INFO, "a replica that lacked records has all that were committed"
)
TRUNCATED = events.register(
    "replica.truncated", logging.INFO, "a log was cut back to where it agrees with its leader's"
)
CUT_REFUSED = events.register(
    "replica.cut-refused",
    logging.ERROR,
    "the leader's log ends below what was committed here: nothing is cut, and another one is to lead",
)
CUT_COMMITTED = events.register(
    "replica.cut-below-committed",
    logging.WARNING,
    "this replica was not in sync, and its leader's log ends below what was committed here: it is cut",
)
UNREADABLE = events.register(
    "log.unreadable-batches",
    logging.WARNING,
    "compaction leaves batches as they are: their producer sent records that nobody can read",
)
COMPACTED = events.register("log.compacted", logging.DEBUG, "a log was compacted")
NOT_COMPACTED = events.register(
    "log.not-compacted", logging.ERROR, "a log cannot be compacted: it is served as it is, and grows"
)


class NodeHost:
    """The `broker.ports.BrokerHost` of a real node.  `ask` carries a request to the active controller."""

    __slots__ = (
        "_ask",
        "_broker",
        "_fetchers",
        "_lifecycle",
        "_logs",
        "_memory",
        "_metadata_directory",
        "_on_fatal",
        "_runtime",
        "_stood_down",
        "_verifier",
    )

    def __init__(
        self,
        runtime: Runtime,
        lifecycle: BrokerLifecycle,
        ask: Callable[[Message], asyncio.Future[Message]],
        *,
        memory: MemoryBudget,
        logs: LogDirectories,
        metadata_directory: str,
        on_fatal: Callable[[Exception], None],
    ) -> None:
        self._runtime = runtime
        self._lifecycle = lifecycle
        self._ask = ask
        self._memory = memory
        self._logs = logs
        self._metadata_directory = metadata_directory
        self._on_fatal = on_fatal
        self._broker: Broker | None = None
        self._fetchers: Fetchers | None = None
        self._verifier: TransactionVerifier | None = None
        self._stood_down: set[Log] = set()

    def serve(self, broker: Broker, fetchers: Fetchers, verifier: TransactionVerifier) -> None:
        """The broker is registered: answers go to it, it may follow others, and ask them."""
        self._broker, self._fetchers, self._verifier = broker, fetchers, verifier

    def allocate_producer_ids(self) -> None:
        """AllocateProducerIds (key 67; KIP-730); the answer goes to `ProducerIdBlocks.allocated`."""
        request = AllocateProducerIdsRequest(
            broker_id=self._runtime.node_id, broker_epoch=self._lifecycle.epoch
        )
        self._ask(request).add_done_callback(self._allocated)

    def _allocated(self, future: asyncio.Future[Message]) -> None:
        broker = self._broker
        if future.cancelled() or broker is None:
            return
        error = future.exception()
        answer = None if error is not None else future.result()
        if isinstance(answer, AllocateProducerIdsResponse):
            code = ErrorCode(answer.error_code)
            broker.producer_ids.allocated(answer.producer_id_start, answer.producer_id_len, code)
        else:
            code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
            broker.producer_ids.allocated(-1, 0, code)
        self._runtime.step.soon()

    def directory_failed(self, directory: LogDirectory, error: StorageError) -> None:
        """A log directory is offline for good; the node stops without its last or its metadata directory."""
        events.emit(events.DIRECTORY_OFFLINE, directory=directory.path, error=error)
        self._lifecycle.directory_failed(directory.directory_id)
        patience = self._runtime.config.int("log.dir.failure.timeout.ms") / 1000
        self._runtime.loop.call_later(patience, self._must_be_reported, directory)
        if directory.path == self._metadata_directory:
            self._on_fatal(
                StorageError(f"the metadata directory {directory.path} failed: {error}", fatal=True)
            )
        elif not self._logs.online():
            self._on_fatal(
                StorageError(f"the last log directory {directory.path} failed: {error}", fatal=True)
            )

    def _must_be_reported(self, directory: LogDirectory) -> None:
        """As long as the controller believes in a dead disk, nobody else leads what lay on it."""
        if directory.directory_id not in self._lifecycle.reported:
            self._on_fatal(
                StorageError(
                    f"the log directory {directory.path} failed, and no controller has heard of it since",
                    next_step="find out why this node does not reach the active controller",
                    fatal=True,
                )
            )

    def room_changed(self, directory: LogDirectory, space: DirectorySpace) -> None:
        """A log directory has no room for records any more, or has room again."""
        event = events.DISK_FULL if space.full else events.DISK_HAS_ROOM
        free, reserve = space.free >> 20, space.reserve >> 20
        events.emit(event, directory=directory.path, free_mib=free, reserve_mib=reserve)
        self._lifecycle.report_soon()

    def speed_changed(self, directory: LogDirectory) -> None:
        """The disk of a log directory takes too long for syncs, or no longer does."""
        event = events.DISK_SLOW if directory.slow else events.DISK_FAST
        events.emit(event, directory=directory.path)
        self._lifecycle.report_soon()

    def not_hosted(self, error: StorageError) -> None:
        """A partition could not be opened; the others are."""
        events.emit(events.PARTITION_NOT_HOSTED, error=error)

    def setting_refused(self, topic: str, error: ConfigError) -> None:
        """A topic's setting is not known here."""
        events.emit(events.SETTING_REFUSED, topic=topic, error=error)

    def assign_directories(self, assignments: Sequence[tuple[TopicId, int, DirectoryId]]) -> None:
        """AssignReplicasToDirs (key 73; KIP-858); the answer goes to `Assignments.answered`."""
        by_directory: dict[DirectoryId, dict[TopicId, list[int]]] = {}
        for topic_id, index, directory in assignments:
            by_directory.setdefault(directory, {}).setdefault(topic_id, []).append(index)
        request = AssignReplicasToDirsRequest(
            broker_id=self._runtime.node_id,
            broker_epoch=self._lifecycle.epoch,
            directories=[
                DirectoryData(
                    id=directory,
                    topics=[
                        TopicData(topic_id=t, partitions=[PartitionData(partition_index=i) for i in rows])
                        for t, rows in topics.items()
                    ],
                )
                for directory, topics in by_directory.items()
            ],
        )
        self._ask(request).add_done_callback(self._assigned)

    def _assigned(self, future: asyncio.Future[Message]) -> None:
        broker = self._broker
        if future.cancelled() or broker is None:
            return
        answer = None if future.exception() is not None else future.result()
        results: dict[tuple[TopicId, int], ErrorCode] | None = None
        if isinstance(answer, AssignReplicasToDirsResponse) and not answer.error_code:
            results = {
                (topic.topic_id, row.partition_index): ErrorCode(row.error_code)
                for directory in answer.directories
                for topic in directory.topics
                for row in topic.partitions
            }
        broker.assignments.answered(results, self._runtime.clock.now())
        self._runtime.step.soon()

    def held(self, connection: int, size: int) -> None:
        """Batches that wait for their check are memory held for a client, as partly received frames are."""
        self._memory.take_for(connection, size)

    def fetch_from(self, leader: NodeId) -> None:
        """Something is new about what is fetched from that node."""
        if self._fetchers is not None:
            self._fetchers.soon(leader)

    def verify_transaction(self, question: Question) -> None:
        """AddPartitionsToTxn (key 24; KIP-890); the answer goes to `Verifications.answered`."""
        if self._verifier is not None:
            self._verifier.ask(question)

    def alter_partitions(self, request: AlterPartitionRequest) -> None:
        """AlterPartition (key 56; KIP-497); the answer goes to `InSyncSets.answered`."""
        self._ask(request).add_done_callback(self._altered)

    def _altered(self, future: asyncio.Future[Message]) -> None:
        broker = self._broker
        if future.cancelled() or broker is None:
            return
        answer = None if future.exception() is not None else future.result()
        broker.in_sync.answered(
            answer if isinstance(answer, AlterPartitionResponse) else None, self._runtime.clock.now()
        )
        self._runtime.step.soon()

    def not_replicated(self, topic: str, index: int, error: BarnabasError) -> None:
        """What a leader sent could not be taken."""
        events.emit(NOT_REPLICATED, topic=topic, partition=index, error=error)

    def truncated(self, topic: str, index: int, before: Offset, end: Offset) -> None:
        """A log was cut back to where it agrees with its leader's."""
        events.emit(TRUNCATED, topic=topic, partition=index, was=before, end=end)

    def leader_is_short(
        self, tp: TopicPartition, leader: NodeId, end: Offset, committed: Offset, *, refused: bool
    ) -> None:
        """A leader's log ends below what was committed here."""
        events.emit(
            CUT_REFUSED if refused else CUT_COMMITTED,
            topic=tp.topic,
            partition=tp.partition,
            leader=leader,
            leader_end=end,
            committed=committed,
        )
        self._lifecycle.report_soon()

    def descriptors_short(self, error: StorageError) -> None:
        """A file could not be opened: too many are."""
        events.emit(events.DESCRIPTORS_SHORT, error=error)

    def set_aside(self, tp: TopicPartition, path: str, topic_id: TopicId | None) -> None:
        """A log that the metadata does not know lies at `path` now."""
        reason = (
            "no such partition is here" if topic_id is None else f"it says that it is of topic {topic_id}"
        )
        events.emit(events.LOG_SET_ASIDE, topic=tp.topic, partition=tp.partition, now=path, reason=reason)

    def adopted(self, log: Log) -> None:
        """A log did not say whose it is."""
        events.emit(events.LOG_ADOPTED, log=log.path, topic_id=log.topic_id)

    def damaged(self, log: Log, found: Sequence[Damage]) -> None:
        """Records of a log cannot be read any more."""
        for damage in found:
            events.emit(
                events.LOG_DAMAGED, log=log.path, start=damage.start, end=damage.end, reason=damage.reason
            )
        self._lifecycle.report_soon()

    def index_remade(self, log: Log, files: Sequence[str]) -> None:
        """Index files of a log were gone or wrong, and are made again."""
        events.emit(events.LOG_INDEX_REMADE, log=log.path, file=files[0], files=len(files))

    def fetched_anew(self, log: Log, gone: Sequence[Damage]) -> None:
        """A log is fetched again from its leader, from the first record on that could not be read."""
        self._stood_down.discard(log)
        events.emit(FETCHED_ANEW, log=log.path, start=gone[0].start, end=gone[-1].end)

    def whole_again(self, log: Log) -> None:
        """A log has again what it lacked."""
        events.emit(WHOLE_AGAIN, log=log.path, end=log.log_end_offset)
        self._lifecycle.report_soon()

    def stand_down(self, log: Log) -> None:
        """This broker has others lead a log of which they have records that it cannot read, once for each log."""
        if log not in self._stood_down:
            self._stood_down.add(log)
            self._lifecycle.stand_down()

    def compacted(self, tp: TopicPartition, done: CompactionStatistics, seconds: float) -> None:
        """A log was compacted."""
        if done.unreadable:
            events.emit(
                UNREADABLE,
                topic=tp.topic,
                partition=tp.partition,
                batches=done.unreadable,
                first=done.first_unreadable,
            )
        events.emit(
            COMPACTED,
            topic=tp.topic,
            partition=tp.partition,
            records=done.records,
            kept=done.kept,
            read=done.read_bytes,
            written=done.written_bytes,
            seconds=f"{seconds:.1f}",
        )

    def not_compacted(self, tp: TopicPartition, error: BarnabasError) -> None:
        """A log is left as it is."""
        events.emit(NOT_COMPACTED, topic=tp.topic, partition=tp.partition, error=error)

    def __repr__(self) -> str:
        return f"<NodeHost epoch={self._lifecycle.epoch}>"
