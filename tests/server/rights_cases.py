"""One request of each API that a client may send, and what Apache Kafka answers without the right to it."""

from __future__ import annotations

from typing import Any

from barnabas.errors import ErrorCode, WireError
from barnabas.model import Uuid
from barnabas.wire.codec.message import Message, encode
from barnabas.wire.records import Record, write_batch
from barnabas.wire.registry import request_class
from barnabas.wire.schemas import (
    acls,
    cluster,
    configs,
    fetch,
    groups,
    offsets,
    produce,
    quotas,
    reassignment,
    sasl,
    topics,
    transactions,
)

TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
TRANSACTION_DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

BATCH = bytes(write_batch([Record(0, 0, None, b"v", [])]))
HIDDEN, ABSENT = "hidden", "absent"
"""A topic that is there, and one that is not: without rights both look the same."""


def request_of(key: int, version: int, name: str, topic_id: Uuid) -> Message:
    """A request of that API about the topic (or group, or transactional id) of that name."""
    if key not in _PLAIN:
        made = _CASES[key](version, name, topic_id)
        assert isinstance(made, Message)
        return made
    fields = dict(_PLAIN[key])
    while True:
        made = request_class(key)(**fields)
        try:
            encode(made, version)
        except WireError as error:  # a field that this version does not have
            del fields[str(error).rpartition(".")[2]]
        else:
            return made


def _metadata(version: int, name: str, topic_id: Uuid) -> Message:
    return cluster.MetadataRequest(
        topics=[cluster.MetadataRequestTopic(name=name)],
        include_topic_authorized_operations=version >= 8,
    )


def _produce(version: int, name: str, topic_id: Uuid) -> Message:
    data = produce.PartitionProduceData(index=0, records=BATCH)
    topic = produce.TopicProduceData(partition_data=[data], **_named(version, 13, name, topic_id))
    return produce.ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic])


def _fetch(version: int, name: str, topic_id: Uuid) -> Message:
    partition = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    named = _named(version, 13, name, topic_id, field="topic")
    return fetch.FetchRequest(
        max_wait_ms=0, min_bytes=0, topics=[fetch.FetchTopic(partitions=[partition], **named)]
    )


def _named(version: int, ids_from: int, name: str, topic_id: Uuid, field: str = "name") -> dict[str, Any]:
    return {"topic_id": topic_id} if version >= ids_from else {field: name}


def _commit(version: int, name: str, topic_id: Uuid) -> Message:
    partition = groups.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topic = groups.OffsetCommitRequestTopic(partitions=[partition], **_named(version, 10, name, topic_id))
    return groups.OffsetCommitRequest(group_id="g", topics=[topic])


def _fetch_offsets(version: int, name: str, topic_id: Uuid) -> Message:
    if version >= 8:
        topic = groups.OffsetFetchRequestTopics(partition_indexes=[0], **_named(version, 10, name, topic_id))
        return groups.OffsetFetchRequest(
            groups=[groups.OffsetFetchRequestGroup(group_id="g", topics=[topic])]
        )
    one = groups.OffsetFetchRequestTopic(name=name, partition_indexes=[0])
    return groups.OffsetFetchRequest(group_id="g", topics=[one])


def _add_partitions(version: int, name: str, topic_id: Uuid) -> Message:
    topic = transactions.AddPartitionsToTxnTopic(name=name, partitions=[0])
    if version >= 4:
        one = transactions.AddPartitionsToTxnTransaction(transactional_id="t", topics=[topic])
        return transactions.AddPartitionsToTxnRequest(transactions=[one])
    return transactions.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t", v3_and_below_topics=[topic]
    )


_FILTER = {
    "resource_type_filter": 1,
    "pattern_type_filter": 1,
    "operation": 1,
    "permission_type": 1,
    "resource_name_filter": None,
    "principal_filter": None,
    "host_filter": None,
}

_PLAIN: dict[int, dict[str, Any]] = {
    11: {
        "group_id": "g",
        "protocol_type": "consumer",
        "session_timeout_ms": 10000,
        "rebalance_timeout_ms": 9000,
    },
    12: {"group_id": "g", "member_id": "m"},
    13: {"group_id": "g", "member_id": "m"},
    14: {"group_id": "g", "member_id": "m", "protocol_type": "consumer", "protocol_name": "range"},
    15: {"groups": ["g"]},
    16: {},
    22: {"transactional_id": None, "transaction_timeout_ms": 1000},
    25: {"transactional_id": "t", "group_id": "g"},
    26: {"transactional_id": "t"},
    29: _FILTER,
    31: {"filters": [acls.DeleteAclsFilter(**_FILTER)]},
    35: {"topics": None},
    42: {"groups_names": ["g"]},
    46: {"topics": None},
    48: {"components": [], "strict": False},
    50: {"users": []},  # (with None, Apache Kafka 4.4.0 never answers who is refused)
    51: {"deletions": [sasl.ScramCredentialDeletion(name="nobody", mechanism=1)]},
    55: {"topics": []},
    57: {"feature_updates": []},
    64: {"broker_id": 99},
    65: {"transactional_ids": ["t"]},
    66: {},
    68: {"group_id": "g", "member_id": "AAAA", "subscribed_topic_names": [HIDDEN]},
    69: {"group_ids": ["g"]},
    74: {},
    80: {"voter_id": 9, "voter_directory_id": Uuid(b"1" * 16), "listeners": []},
    81: {"voter_id": 9, "voter_directory_id": Uuid(b"1" * 16)},
    60: {"include_cluster_authorized_operations": True},
    94: {"controller_id": 99},
}

_CASES: dict[int, Any] = {
    0: _produce,
    1: _fetch,
    2: lambda version, name, id_: offsets.ListOffsetsRequest(
        topics=[
            offsets.ListOffsetsTopic(
                name=name, partitions=[offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)]
            )
        ]
    ),
    3: _metadata,
    8: _commit,
    9: _fetch_offsets,
    10: lambda version, name, id_: groups.FindCoordinatorRequest(
        **({"coordinator_keys": ["g"]} if version >= 4 else {"key": "g"})
    ),
    19: lambda version, name, id_: topics.CreateTopicsRequest(
        topics=[topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1)], timeout_ms=1000
    ),
    20: lambda version, name, id_: topics.DeleteTopicsRequest(
        timeout_ms=1000,
        **({"topics": [topics.DeleteTopicState(name=name)]} if version >= 6 else {"topic_names": [name]}),
    ),
    21: lambda version, name, id_: offsets.DeleteRecordsRequest(
        topics=[
            offsets.DeleteRecordsTopic(
                name=name, partitions=[offsets.DeleteRecordsPartition(partition_index=0, offset=-1)]
            )
        ],
        timeout_ms=1000,
    ),
    23: lambda version, name, id_: offsets.OffsetForLeaderEpochRequest(
        topics=[
            offsets.OffsetForLeaderTopic(
                topic=name, partitions=[offsets.OffsetForLeaderPartition(partition=0, leader_epoch=0)]
            )
        ]
    ),
    24: _add_partitions,
    27: lambda version, name, id_: transactions.WriteTxnMarkersRequest(
        markers=[
            transactions.WritableTxnMarker(
                producer_id=1,
                topics=[transactions.WritableTxnMarkerTopic(name=name, partition_indexes=[0])],
            )
        ]
    ),
    28: lambda version, name, id_: transactions.TxnOffsetCommitRequest(
        transactional_id="t",
        group_id="g",
        topics=[
            transactions.TxnOffsetCommitRequestTopic(
                name=name,
                topic_id=id_,
                partitions=[
                    transactions.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
                ],
            )
        ],
    ),
    30: lambda version, name, id_: acls.CreateAclsRequest(
        creations=[
            acls.AclCreation(
                resource_type=2,
                resource_name=name,
                resource_pattern_type=3,
                principal="User:mallory",
                host="*",
                operation=2,
                permission_type=3,
            )
        ]
    ),
    32: lambda version, name, id_: configs.DescribeConfigsRequest(
        resources=[configs.DescribeConfigsResource(resource_type=2, resource_name=name)]
    ),
    33: lambda version, name, id_: configs.AlterConfigsRequest(
        resources=[configs.AlterConfigsRequestAlterConfigsResource(resource_type=2, resource_name=name)]
    ),
    34: lambda version, name, id_: reassignment.AlterReplicaLogDirsRequest(
        dirs=[
            reassignment.AlterReplicaLogDir(
                path="/tmp", topics=[reassignment.AlterReplicaLogDirTopic(name=name, partitions=[0])]
            )
        ]
    ),
    37: lambda version, name, id_: topics.CreatePartitionsRequest(
        topics=[topics.CreatePartitionsTopic(name=name, count=2)], timeout_ms=1000
    ),
    43: lambda version, name, id_: reassignment.ElectLeadersRequest(
        topic_partitions=[reassignment.TopicPartitions(topic=name, partitions=[0])]
    ),
    44: lambda version, name, id_: configs.IncrementalAlterConfigsRequest(
        resources=[
            configs.IncrementalAlterConfigsRequestAlterConfigsResource(resource_type=2, resource_name=name)
        ]
    ),
    45: lambda version, name, id_: reassignment.AlterPartitionReassignmentsRequest(
        topics=[
            reassignment.ReassignableTopic(
                name=name,
                partitions=[reassignment.ReassignablePartition(partition_index=0, replicas=[1])],
            )
        ]
    ),
    47: lambda version, name, id_: groups.OffsetDeleteRequest(
        group_id="g",
        topics=[
            groups.OffsetDeleteRequestTopic(
                name=name, partitions=[groups.OffsetDeleteRequestPartition(partition_index=0)]
            )
        ],
    ),
    49: lambda version, name, id_: quotas.AlterClientQuotasRequest(
        entries=[
            quotas.AlterClientQuotasRequestEntryData(
                entity=[quotas.AlterClientQuotasRequestEntityData(entity_type="user", entity_name="mallory")],
                ops=[quotas.OpData(key="producer_byte_rate", value=1.0)],
            )
        ]
    ),
    61: lambda version, name, id_: transactions.DescribeProducersRequest(
        topics=[transactions.TopicRequest(name=name, partition_indexes=[0])]
    ),
    75: lambda version, name, id_: cluster.DescribeTopicPartitionsRequest(
        topics=[cluster.TopicRequest(name=name)]
    ),
}

DENIED: dict[int, ErrorCode | None] = {
    **dict.fromkeys((0, 1, 2, 3, 19, 20, 21, 23, 32, 33, 37, 44, 61, 75), TOPIC_DENIED),
    **dict.fromkeys((8, 9, 10, 11, 12, 13, 14, 15, 42, 47, 68, 69), GROUP_DENIED),
    **dict.fromkeys(
        (22, 27, 29, 30, 31, 34, 35, 43, 45, 46, 48, 49, 50, 51, 55, 57, 64, 74, 80, 81, 94), CLUSTER_DENIED
    ),
    **dict.fromkeys((24, 25, 26, 28, 65), TRANSACTION_DENIED),
    **dict.fromkeys((16, 60, 66), None),
}
"""API -> the code of every item of the answer; None: nothing is refused, and nothing shown."""
