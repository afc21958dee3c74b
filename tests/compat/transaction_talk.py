"""Short words for what transactional clients and coordinators say to a node, and what they hear."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from barnabas.client.blocking import BlockingConnection
from barnabas.errors import ErrorCode
from barnabas.wire.records import Record, batches, read_records, write_batch
from barnabas.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.schemas.groups import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.wire.schemas.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.schemas.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    DescribeProducersRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TopicRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

FOR_A_MOMENT = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
}


class Talk:
    """One case's conversation with a node; `heard` is what it came to."""

    def __init__(self, connection: BlockingConnection, name: str) -> None:
        self.connection = connection
        self.name = name
        self.heard: list[Any] = []

    def say(self, what: str, *answer: Any) -> None:
        said = [ErrorCode(one).name if isinstance(one, ErrorCode) else one for one in answer]
        self.heard.append((what, *said))

    # ---- the coordinator -----------------------------------------------------------------------------

    def init(self, number: int = 0, version: int = 4) -> Producer:
        request = InitProducerIdRequest(
            transactional_id=f"{self.name}-{number}", transaction_timeout_ms=60_000
        )
        answer = self.patiently(lambda: self.connection.request(request, version), lambda a: [a.error_code])
        assert answer.error_code == 0, ErrorCode(answer.error_code)
        return Producer(f"{self.name}-{number}", answer.producer_id, answer.producer_epoch)

    def patiently(self, ask: Callable[[], Any], codes: Callable[[Any], list[int]]) -> Any:
        """Ask until nothing is only being completed."""
        deadline = time.monotonic() + 20
        while True:
            answer = ask()
            if not set(codes(answer)) & FOR_A_MOMENT or time.monotonic() > deadline:
                return answer
            time.sleep(0.05)

    def add(self, who: Producer, partition: int = 0) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=who.name,
            v3_and_below_producer_id=who.id,
            v3_and_below_producer_epoch=who.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=self.name, partitions=[partition])],
        )

        def codes(answer: Any) -> list[int]:
            found = answer.results_by_topic_v3_and_below
            return [found[0].results_by_partition[0].partition_error_code]

        self.say(
            "add", ErrorCode(codes(self.patiently(lambda: self.connection.request(request, 3), codes))[0])
        )

    def add_offsets(self, who: Producer) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=who.name, producer_id=who.id, producer_epoch=who.epoch, group_id=self.name
        )
        answer = self.patiently(lambda: self.connection.request(request, 3), lambda a: [a.error_code])
        self.say("add offsets", ErrorCode(answer.error_code))

    def end(self, who: Producer, commit: bool = True, version: int = 3) -> None:
        request = EndTxnRequest(
            transactional_id=who.name, producer_id=who.id, producer_epoch=who.epoch, committed=commit
        )
        answer = self.patiently(lambda: self.connection.request(request, version), lambda a: [a.error_code])
        self.say("end", ErrorCode(answer.error_code))
        if version >= 5 and not answer.error_code:
            who.id, who.epoch = answer.producer_id, answer.producer_epoch

    # ---- the leader ----------------------------------------------------------------------------------

    def produce(
        self,
        who: Producer,
        *values: str,
        version: int = 11,
        sequence: int = 0,
        partition: int = 0,
        **odd: Any,
    ) -> None:
        header = {
            "producer_id": who.id,
            "producer_epoch": who.epoch,
            "base_sequence": sequence,
            "transactional": True,
            **odd,
        }
        name = header.pop("transactional_id", who.name)
        now = int(time.time() * 1000)
        records = [Record(index, now, None, v.encode()) for index, v in enumerate(values)]
        data = PartitionProduceData(index=partition, records=write_batch(records, **header))
        request = ProduceRequest(
            transactional_id=name,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[TopicProduceData(name=self.name, partition_data=[data])],
        )

        def ask() -> Any:
            return self.connection.request(request, version).responses[0].partition_responses[0]

        answer = self.patiently(ask, lambda a: [a.error_code] if partition < 2 else [])
        self.say("produce", ErrorCode(answer.error_code), answer.base_offset)

    def mark(
        self,
        who: Producer,
        commit: bool = True,
        *,
        epoch: int | None = None,
        coordinator: int = 0,
        txn_version: int = 0,
        version: int = 2,
        partition: int = 0,
        topic: str | None = None,
    ) -> None:
        marker = WritableTxnMarker(
            producer_id=who.id,
            producer_epoch=who.epoch if epoch is None else epoch,
            transaction_result=commit,
            topics=[WritableTxnMarkerTopic(name=topic or self.name, partition_indexes=[partition])],
            coordinator_epoch=coordinator,
            transaction_version=txn_version,
        )
        answer = self.connection.request(WriteTxnMarkersRequest(markers=[marker]), version)
        self.say("mark", ErrorCode(answer.markers[0].topics[0].partitions[0].error_code))

    def latest(self, level: int, partition: int = 0) -> int:
        asked = ListOffsetsPartition(partition_index=partition, timestamp=-1)
        topic = ListOffsetsTopic(name=self.name, partitions=[asked])
        request = ListOffsetsRequest(replica_id=-1, isolation_level=level, topics=[topic])
        return int(self.connection.request(request, 7).topics[0].partitions[0].offset)

    def settle(self) -> None:
        """Wait until the markers are written."""
        deadline = time.monotonic() + 20
        while self.latest(0) != self.latest(1) and time.monotonic() < deadline:
            time.sleep(0.02)

    def look(self, partition: int = 0) -> None:
        """Both ends, both readers, and who produces."""
        for level in (0, 1):
            end = self.latest(level, partition)
            wanted = FetchPartition(partition=partition, partition_max_bytes=1 << 20)
            fetch = FetchRequest(
                max_wait_ms=0,
                min_bytes=0,
                max_bytes=1 << 20,
                isolation_level=level,
                topics=[FetchTopic(topic=self.name, partitions=[wanted])],
            )
            found = self.connection.request(fetch, 12).responses[0].partitions[0]
            records = bytes(found.records or b"")
            seen = [
                (
                    header.attributes & 0x30,
                    header.producer_epoch,
                    header.base_sequence,
                    record.value,
                    record.key,
                )
                for position, header in batches(records)
                for record in read_records(records, position, header)
            ]
            aborted = [one.first_offset for one in found.aborted_transactions or ()]
            where = (found.high_watermark, found.last_stable_offset)
            self.say("look", level, end, where, seen, aborted)
        request = DescribeProducersRequest(
            topics=[TopicRequest(name=self.name, partition_indexes=[partition])]
        )
        answer = self.connection.request(request).topics[0].partitions[0]
        states = [
            (one.producer_epoch, one.last_sequence, one.coordinator_epoch >= 0, one.current_txn_start_offset)
            for one in sorted(answer.active_producers, key=lambda one: one.producer_id)
        ]
        self.say("producers", ErrorCode(answer.error_code), states)

    # ---- the group -----------------------------------------------------------------------------------

    def keep(
        self, who: Producer, offset: int, *, version: int = 3, topic: str | None = None, **odd: Any
    ) -> None:
        one = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata="m"
        )
        fields = {
            "transactional_id": who.name,
            "group_id": self.name,
            "producer_id": who.id,
            "producer_epoch": who.epoch,
            **odd,
        }
        topics = [TxnOffsetCommitRequestTopic(name=topic or self.name, partitions=[one])]
        request = TxnOffsetCommitRequest(topics=topics, **fields)

        def codes(answer: Any) -> list[int]:
            return [answer.topics[0].partitions[0].error_code] if topic is None else []

        answer = self.patiently(lambda: self.connection.request(request, version), codes)
        self.say("keep", ErrorCode(answer.topics[0].partitions[0].error_code))

    def commit(self, offset: int) -> None:
        one = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = OffsetCommitRequest(
            group_id=self.name,
            generation_id_or_member_epoch=-1,
            topics=[OffsetCommitRequestTopic(name=self.name, partitions=[one])],
        )
        self.say("commit", ErrorCode(self.connection.request(request, 8).topics[0].partitions[0].error_code))

    def where(self, stable: bool = True, *, wait: bool = False) -> None:
        """Where the group stands; `wait` for markers that are on their way."""
        wanted = OffsetFetchRequestTopics(name=self.name, partition_indexes=[0])
        group = OffsetFetchRequestGroup(group_id=self.name, topics=[wanted])
        request = OffsetFetchRequest(groups=[group], require_stable=stable)

        def ask() -> Any:
            return self.connection.request(request, 8).groups[0].topics[0].partitions[0]

        answer = self.patiently(ask, lambda a: [a.error_code]) if wait else ask()
        self.say("where", ErrorCode(answer.error_code), answer.committed_offset, answer.metadata)


class Producer:
    """Who one is to the coordinator."""

    def __init__(self, name: str, id: int, epoch: int) -> None:
        self.name = name
        self.id = id
        self.epoch = epoch

    def but(self, **fields: int) -> Producer:
        return Producer(self.name, fields.get("id", self.id), fields.get("epoch", self.epoch))
