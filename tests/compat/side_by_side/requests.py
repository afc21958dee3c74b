"""A step -> the message that one side is sent, with all symbols replaced by what that side has said."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import Any

from tests.broker.consumer_mixed_walk import subscription
from tests.compat.side_by_side.side import UNKNOWN_ID, Side
from tests.compat.side_by_side.steps import Step

from barnabas.wire.codec.message import Message, encode
from barnabas.wire.records import Record, write_batch
from barnabas.wire.schemas.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from barnabas.wire.schemas.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
)
from barnabas.wire.schemas.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    ListGroupsRequest,
    MemberIdentity,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from barnabas.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.schemas.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    TopicRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

__all__ = ["message"]

Builder = Callable[[Side, Step], Message]
BUILDERS: dict[str, Builder] = {}


def builds(api: str) -> Callable[[Builder], Builder]:
    def keep(function: Builder) -> Builder:
        BUILDERS[api] = function
        return function

    return keep


def message(side: Side, step: Step) -> Message:
    """What `side` is sent for this step."""
    return BUILDERS[step.api](side, step)


# -- transactions ---------------------------------------------------------------------------------------


@builds("init")
def _init(side: Side, step: Step) -> Message:
    how = step.how
    fields: dict[str, Any] = {}
    if step.version >= 3 and "who" in how:
        fields["producer_id"], fields["producer_epoch"] = side.producer(step.by).who(how["who"])
    if step.version >= 6:
        fields |= {"enable2_pc": how.get("two_phases", False), "keep_prepared_txn": how.get("keep", False)}
    return InitProducerIdRequest(
        transactional_id=side.named(how["id"]), transaction_timeout_ms=how["timeout_ms"], **fields
    )


def _topics(side: Side, step: Step) -> list[AddPartitionsToTxnTopic]:
    return [
        AddPartitionsToTxnTopic(name=side.named(name) or "", partitions=indexes)
        for name, indexes in step.how["topics"].items()
    ]


@builds("add")
def _add(side: Side, step: Step) -> Message:
    id, epoch = side.producer(step.by).who(step.how["who"])
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=side.named(step.how["id"]) or "",
        v3_and_below_producer_id=id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=_topics(side, step),
    )


@builds("add many")
def _add_many(side: Side, step: Step) -> Message:
    id, epoch = side.producer(step.by).who(step.how["who"])
    one = AddPartitionsToTxnTransaction(
        transactional_id=side.named(step.how["id"]) or "",
        producer_id=id,
        producer_epoch=epoch,
        verify_only=step.how["verify"],
        topics=_topics(side, step),
    )
    return AddPartitionsToTxnRequest(transactions=[one])


@builds("add offsets")
def _add_offsets(side: Side, step: Step) -> Message:
    id, epoch = side.producer(step.by).who(step.how["who"])
    return AddOffsetsToTxnRequest(
        transactional_id=side.named(step.how["id"]) or "",
        producer_id=id,
        producer_epoch=epoch,
        group_id=side.named(step.how["group"]) or "",
    )


@builds("end")
def _end(side: Side, step: Step) -> Message:
    id, epoch = side.producer(step.by).who(step.how["who"])
    return EndTxnRequest(
        transactional_id=side.named(step.how["id"]) or "",
        producer_id=id,
        producer_epoch=epoch,
        committed=step.how["commit"],
    )


@builds("produce")
def _produce(side: Side, step: Step) -> Message:
    how = step.how
    known = side.producer(step.by)
    id, epoch = known.who(how["who"])
    following = known.sequences.get(((id, epoch), how["partition"]), 0)
    sequence = {
        "next": following,
        "gap": following + 3,
        "again": max(following - known.last_count, 0),
        "zero": 0,
    }[how["sequence"]]
    now = int(time.time() * 1000)
    records = [Record(number, now, None, b"%d" % (sequence + number)) for number in range(how["count"])]
    batch = write_batch(
        records,
        producer_id=id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=how.get("transactional", True),
        control=how.get("control", False),
    )
    if "lying" in how:
        from crc32c import crc32c

        struct.pack_into(">i", batch, 57, how["lying"])
        struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
    data = PartitionProduceData(index=how["partition"], records=bytes(batch))
    topic = TopicProduceData(name=side.named(how["topic"]) or "", partition_data=[data])
    return ProduceRequest(
        transactional_id=side.named(how["id"]), acks=-1, timeout_ms=10_000, topic_data=[topic]
    )


@builds("keep offsets")
def _keep_offsets(side: Side, step: Step) -> Message:
    how = step.how
    id, epoch = side.producer(step.by).who(how["who"])
    fields: dict[str, Any] = {}
    if step.version >= 3:
        fields["group_instance_id"] = how.get("instance")
        if "member" in how:
            fields["member_id"] = _member(side, how, "member_who")
        generation = how.get("generation", -1)
        if isinstance(generation, str):
            generation = side.epoch(how["member"], generation)
        fields["generation_id_or_member_epoch"] = generation
    partitions = [
        TxnOffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_metadata=how.get("metadata", "m")
        )
        for index, offset in how["offsets"].items()
    ]
    named = _topic(side, step.version >= 6, how.get("topic", "t"))
    topic = TxnOffsetCommitRequestTopic(**named, partitions=partitions)
    return TxnOffsetCommitRequest(
        transactional_id=side.named(how["id"]) or "",
        group_id=side.named(how["group"]) or "",
        producer_id=id,
        producer_epoch=epoch,
        topics=[topic],
        **fields,
    )


@builds("mark")
def _mark(side: Side, step: Step) -> Message:
    how = step.how
    id, epoch = side.producer(how["producer"]).who(how["who"])
    marker = WritableTxnMarker(
        producer_id=id,
        producer_epoch=epoch,
        transaction_result=how["commit"],
        topics=[WritableTxnMarkerTopic(name=side.named("t") or "", partition_indexes=[how["partition"]])],
        coordinator_epoch=how["coordinator"],
        transaction_version=how["txn_version"],
    )
    return WriteTxnMarkersRequest(markers=[marker])


@builds("describe transactions")
def _describe_transactions(side: Side, step: Step) -> Message:
    return DescribeTransactionsRequest(transactional_ids=[side.named(id) or "" for id in step.how["ids"]])


@builds("list transactions")
def _list_transactions(side: Side, step: Step) -> Message:
    how = step.how
    fields: dict[str, Any] = {"state_filters": how.get("states", [])}
    fields["producer_id_filters"] = [
        side.producer(name).who(who)[0] for name, who in how.get("producers", ())
    ]
    if "longer_ms" in how:
        fields["duration_filter"] = how["longer_ms"]
    if "pattern" in how:
        fields["transactional_id_pattern"] = how["pattern"].replace("<prefix>", side.prefix)
    return ListTransactionsRequest(**fields)


@builds("describe producers")
def _describe_producers(side: Side, step: Step) -> Message:
    topics = step.how["topics"].items()
    return DescribeProducersRequest(
        topics=[
            TopicRequest(name=side.named(name) or "", partition_indexes=indexes) for name, indexes in topics
        ]
    )


# -- groups of the classic protocol ---------------------------------------------------------------------


def _group(side: Side, how: dict[str, Any]) -> str:
    return side.named(how["group"]) or ""


def _member(side: Side, how: dict[str, Any], who: str = "who") -> str:
    name = how["member"]
    return name if name == "nobody" else side.member_id(name, how.get(who, "known"))


@builds("join")
def _join(side: Side, step: Step) -> Message:
    how = step.how
    metadata = b"garbage" if how["topics"] == "garbage" else subscription(how["topics"], {}, 1)
    return JoinGroupRequest(
        group_id=_group(side, how),
        session_timeout_ms=how["session_ms"],
        rebalance_timeout_ms=300_000 if step.version >= 1 else -1,
        member_id=_member(side, how),
        group_instance_id=how.get("instance"),
        protocol_type=how["kind"],
        protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name in how["protocols"]],
    )


def _assignment(number: int, of: int) -> bytes:
    partitions = list(range(5))[number::of]
    topic = ConsumerProtocolAssignmentTopicPartition(topic="flights", partitions=partitions)
    return b"\0\1" + encode(ConsumerProtocolAssignment(assigned_partitions=[topic]), 1)


@builds("sync")
def _sync(side: Side, step: Step) -> Message:
    how = step.how
    known = side.member(how["member"])
    members = sorted(known.members, key=side.symbol)
    given = {id: _assignment(number, len(members)) for number, id in enumerate(members)}
    if how["gives"] == "half":
        given = dict(list(given.items())[: len(given) // 2])
    elif how["gives"] != "all":
        given = {"nobody": b"\0\1"} if how["gives"] == "nobody" else {}
    fields: dict[str, Any] = {}
    if step.version >= 5:
        name = how.get("protocol", "known")
        fields["protocol_name"] = known.protocol if name == "known" else name
        fields["protocol_type"] = how.get("kind", "consumer")
    return SyncGroupRequest(
        group_id=_group(side, how),
        generation_id=side.epoch(how["member"], how["generation"]),
        member_id=_member(side, how),
        group_instance_id=how.get("instance"),
        assignments=[SyncGroupRequestAssignment(member_id=id, assignment=one) for id, one in given.items()],
        **fields,
    )


@builds("beat")
def _beat(side: Side, step: Step) -> Message:
    how = step.how
    return HeartbeatRequest(
        group_id=_group(side, how),
        generation_id=side.epoch(how["member"], how["generation"]),
        member_id=_member(side, how),
        group_instance_id=how.get("instance"),
    )


@builds("leave")
def _leave(side: Side, step: Step) -> Message:
    group = _group(side, step.how)
    leaving = [(side.member_id(name, who), instance) for name, who, instance in step.how["members"]]
    if step.version < 3:
        return LeaveGroupRequest(group_id=group, member_id=leaving[0][0])
    members = [MemberIdentity(member_id=id, group_instance_id=instance) for id, instance in leaving]
    return LeaveGroupRequest(group_id=group, members=members)


# -- positions ------------------------------------------------------------------------------------------


def _topic(side: Side, by_id: bool, name: str) -> dict[str, Any]:
    if by_id:
        return {"topic_id": side.topics.get(side.named(name) or "", UNKNOWN_ID)}
    return {"name": side.named(name) or ""}


@builds("commit")
def _commit(side: Side, step: Step) -> Message:
    how = step.how
    fields: dict[str, Any] = {}
    if "member" in how:
        fields["member_id"] = _member(side, how)
        fields["generation_id_or_member_epoch"] = side.epoch(how["member"], how["generation"])
    if "keep_ms" in how:
        fields["retention_time_ms"] = how["keep_ms"]
    topics = [
        OffsetCommitRequestTopic(
            **_topic(side, step.version >= 10, name),
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=index, committed_offset=offset, committed_metadata=how.get("metadata", "")
                )
                for index, offset in offsets.items()
            ],
        )
        for name, offsets in how["topics"].items()
    ]
    return OffsetCommitRequest(
        group_id=_group(side, how), group_instance_id=how.get("instance"), topics=topics, **fields
    )


@builds("fetch offsets")
def _fetch_offsets(side: Side, step: Step) -> Message:
    version = step.version
    stable = {"require_stable": step.how["stable"]} if version >= 7 else {}
    if version <= 7:
        how = step.how["groups"][0]
        topics = how["topics"]
        wanted = None
        if topics is not None:
            wanted = [
                OffsetFetchRequestTopic(name=side.named(name) or "", partition_indexes=indexes)
                for name, indexes in topics.items()
            ]
        return OffsetFetchRequest(group_id=_group(side, how), topics=wanted, **stable)
    groups = []
    for how in step.how["groups"]:
        fields: dict[str, Any] = {}
        if "member" in how and version >= 9:
            fields["member_id"] = _member(side, how)
            fields["member_epoch"] = side.epoch(how["member"], how["generation"])
        asked = None
        if how["topics"] is not None:
            asked = [
                OffsetFetchRequestTopics(**_topic(side, version >= 10, name), partition_indexes=indexes)
                for name, indexes in how["topics"].items()
            ]
        groups.append(OffsetFetchRequestGroup(group_id=_group(side, how), topics=asked, **fields))
    return OffsetFetchRequest(groups=groups, **stable)


@builds("delete offsets")
def _delete_offsets(side: Side, step: Step) -> Message:
    topics = [
        OffsetDeleteRequestTopic(
            name=side.named(name) or "",
            partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes],
        )
        for name, indexes in step.how["topics"].items()
    ]
    return OffsetDeleteRequest(group_id=_group(side, step.how), topics=topics)


# -- all groups -----------------------------------------------------------------------------------------


def _groups(side: Side, step: Step) -> list[str]:
    return [side.named(name) or "" for name in step.how["groups"]]


@builds("delete groups")
def _delete_groups(side: Side, step: Step) -> Message:
    return DeleteGroupsRequest(groups_names=_groups(side, step))


@builds("describe groups")
def _describe_groups(side: Side, step: Step) -> Message:
    return DescribeGroupsRequest(groups=_groups(side, step))


@builds("describe consumer groups")
def _describe_consumer_groups(side: Side, step: Step) -> Message:
    return ConsumerGroupDescribeRequest(group_ids=_groups(side, step))


@builds("list groups")
def _list_groups(side: Side, step: Step) -> Message:
    how = step.how
    fields = {"states_filter": how["states"]} if "states" in how else {}
    fields |= {"types_filter": how["types"]} if "types" in how else {}
    return ListGroupsRequest(**fields)


@builds("heartbeat")
def _heartbeat(side: Side, step: Step) -> Message:
    how = step.how
    owned: dict[Any, list[int]] | None = {
        "told": side.member(how["member"]).owned,
        "none": None,
        "empty": {},
        "flights 0 and 4": {side.topics["flights"]: [0, 4]},
        "flights 99": {side.topics["flights"]: [99]},
        "unknown topic": {UNKNOWN_ID: [0]},
    }[how["owned"]]
    partitions = None
    if owned is not None:
        partitions = [
            ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=id, partitions=indexes)
            for id, indexes in owned.items()
        ]
    fields = {"subscribed_topic_regex": how.get("regex")} if step.version >= 1 else {}
    return ConsumerGroupHeartbeatRequest(
        group_id=_group(side, how),
        member_id=_member(side, how),
        member_epoch=side.epoch(how["member"], how["epoch"]),
        instance_id=how.get("instance"),
        rack_id=how.get("rack"),
        rebalance_timeout_ms=how.get("timeout_ms", -1),
        subscribed_topic_names=how.get("topics"),
        server_assignor=how.get("assignor"),
        topic_partitions=partitions,
        **fields,
    )
