"""What an administrator sees and changes of groups: who is in them, how far they are, where they go on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from barnabas.client.admin.described import GroupDescription, GroupListing, GroupOffset, MemberDescription
from barnabas.client.admin.topics import offsets as offsets_of
from barnabas.client.assignment import decode_assignment
from barnabas.client.connection import first_of
from barnabas.client.coordinators import raise_for
from barnabas.client.for_both import AnyCluster, AnyConnection, for_both
from barnabas.client.group_offsets import commit_offsets, committed_offsets
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import Offset, TopicPartition
from barnabas.wire.schemas.consumer_groups import ConsumerGroupDescribeRequest
from barnabas.wire.schemas.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

__all__ = [
    "delete_group",
    "delete_group_offsets",
    "describe_group",
    "group_offsets",
    "list_groups",
    "set_group_offsets",
]


@for_both
async def list_groups(cluster: AnyCluster) -> list[GroupListing]:
    """`list_groups(cluster)` -> all groups, by name."""

    async def attempt() -> list[GroupListing]:
        await cluster.refresh([])
        found: dict[str, GroupListing] = {}
        for broker in await cluster.brokers():
            response = await (await cluster.connection(broker.id)).request(ListGroupsRequest())
            raise_for(response.error_code, f"listing the groups of broker {broker.id}")
            for g in response.groups:
                kind = (g.group_type or "classic").lower()
                found[g.group_id] = GroupListing(g.group_id, kind, g.protocol_type, g.group_state)
        return [found[name] for name in sorted(found)]

    return await cluster.retrying(attempt)


@for_both
async def describe_group(cluster: AnyCluster, group: str) -> GroupDescription:
    """`describe_group(cluster, "billing").members` -> who is in it and reads what."""

    async def attempt(coordinator: AnyConnection) -> GroupDescription:
        response = await coordinator.request(DescribeGroupsRequest(groups=[group]))
        found = first_of(response.groups, f"group {group}")
        if found.error_code in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND) and (
            found.error_code or found.group_state == "Dead"
        ):
            newer = await _describe_newer(coordinator, group)
            if newer is not None:
                return newer
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"there is no group {group}",
                next_step="see what there is with `barnabas groups list`",
            )
        raise_for(found.error_code, f"group {group}")
        members = tuple(
            MemberDescription(
                m.member_id,
                m.client_id,
                m.client_host,
                m.group_instance_id,
                tuple(decode_assignment(m.member_assignment)) if found.protocol_type == "consumer" else (),
            )
            for m in found.members
        )
        return GroupDescription(
            group, found.group_state, "classic", found.protocol_data, coordinator.address, members
        )

    return await cluster.at_coordinator(group, attempt)


async def _describe_newer(coordinator: AnyConnection, group: str) -> GroupDescription | None:
    """A group of the newer protocol (KIP-848), where the broker serves it."""
    if not coordinator.serves(ConsumerGroupDescribeRequest):
        return None
    response = await coordinator.request(ConsumerGroupDescribeRequest(group_ids=[group]))
    found = first_of(response.groups, f"group {group}")
    if found.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return None
    raise_for(found.error_code, f"group {group}")
    members = tuple(
        MemberDescription(
            m.member_id,
            m.client_id,
            m.client_host,
            m.instance_id,
            tuple(
                TopicPartition(t.topic_name, p) for t in m.assignment.topic_partitions for p in t.partitions
            ),
        )
        for m in found.members
    )
    return GroupDescription(
        group, found.group_state, "consumer", found.assignor_name, coordinator.address, members
    )


@for_both
async def group_offsets(cluster: AnyCluster, group: str) -> list[GroupOffset]:
    """`group_offsets(cluster, "billing")` -> committed offset, end and lag of every partition."""
    committed = await cluster.at_coordinator(group, lambda coordinator: committed_offsets(coordinator, group))
    owners: dict[TopicPartition, MemberDescription] = {}
    try:
        for member in (await describe_group(cluster, group)).members:
            owners.update(dict.fromkeys(member.partitions, member))
    except KafkaError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND or not committed:
            raise
    rows: list[GroupOffset] = []
    targets = sorted({*committed, *owners})
    for topic in sorted({t.topic for t in targets}):
        mine = [t.partition for t in targets if t.topic == topic]
        try:
            ends = await offsets_of(cluster, topic, "latest", mine)
        except KafkaError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            ends = {}  # the topic was deleted; its offsets are still there
        for partition in mine:
            target = TopicPartition(topic, partition)
            end = ends[partition].offset if partition in ends else -1
            done = committed.get(target)
            lag = None if done is None or end < 0 else max(end - done, 0)
            rows.append(GroupOffset(topic, partition, done, end, lag, owners.get(target)))
    return rows


@for_both
async def set_group_offsets(
    cluster: AnyCluster, group: str, offsets: Mapping[TopicPartition, Offset]
) -> None:
    """`set_group_offsets(cluster, "billing", {TopicPartition("orders", 0): 0})`; the group must be empty."""
    try:
        await cluster.at_coordinator(group, lambda it: commit_offsets(it, group, offsets))
    except KafkaError as error:
        if error.code not in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            raise
        raise KafkaError(
            ErrorCode.NON_EMPTY_GROUP,
            f"group {group} has members, which own its offsets",
            next_step="stop its consumers first; `barnabas groups describe` shows them",
        ) from error


@for_both
async def delete_group(cluster: AnyCluster, group: str) -> None:
    """`delete_group(cluster, "billing")`: with all its offsets; it must be empty."""

    async def attempt(coordinator: AnyConnection) -> None:
        response = await coordinator.request(DeleteGroupsRequest(groups_names=[group]))
        result = first_of(response.results, f"group {group}")
        code = ErrorCode(result.error_code)
        if code == ErrorCode.NON_EMPTY_GROUP:
            raise KafkaError(
                code,
                f"group {group} has members",
                next_step="stop its consumers first; `barnabas groups describe` shows them",
            )
        if code == ErrorCode.GROUP_ID_NOT_FOUND:
            raise KafkaError(
                code, f"there is no group {group}", next_step="see what there is with `barnabas groups list`"
            )
        raise_for(
            code, f"group {group}: {result.error_message}" if result.error_message else f"group {group}"
        )

    await cluster.at_coordinator(group, attempt)


@for_both
async def delete_group_offsets(cluster: AnyCluster, group: str, partitions: Iterable[TopicPartition]) -> None:
    """`delete_group_offsets(cluster, "billing", [TopicPartition("orders", 0)])`; no member may read the topic."""
    by_topic: dict[str, list[OffsetDeleteRequestPartition]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(OffsetDeleteRequestPartition(partition_index=partition))
    topics = [OffsetDeleteRequestTopic(name=name, partitions=some) for name, some in by_topic.items()]

    async def attempt(coordinator: AnyConnection) -> None:
        response = await coordinator.request(OffsetDeleteRequest(group_id=group, topics=topics))
        raise_for(response.error_code, f"group {group}")
        for topic in response.topics:
            for partition in topic.partitions:
                where = f"the offset of group {group} in {topic.name}-{partition.partition_index}"
                if partition.error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC:
                    raise KafkaError(
                        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
                        f"{where} cannot be deleted: its members read {topic.name}",
                        next_step="stop them first, or have them read other topics",
                    )
                raise_for(partition.error_code, where)

    await cluster.at_coordinator(group, attempt)
