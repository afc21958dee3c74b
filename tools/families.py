"""Which message is declared in which module of `barnabas.wire.schemas`, and what each is, in our words.

A family is a module: its docstring, then its messages.  An API stands as name: (request, response).
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["FAMILIES", "Family"]


class Family(NamedTuple):
    """A module: what it says of itself, its APIs and its single messages."""

    about: str
    apis: dict[str, tuple[str, str]]
    data: dict[str, str] = {}


FAMILIES: dict[str, Family] = {
    "produce": Family(
        "Appending record batches.",
        {
            "Produce": (
                "Append record batches to partitions (KIP-98 producers; topic ids since v13, KIP-516).",
                "Where each batch ended up, or why it did not (the new leader's address: KIP-951).",
            ),
        },
    ),
    "fetch": Family(
        "Reading record batches: consumers, followers and the quorum's replicas use the same request.",
        {
            "Fetch": (
                "Read batches from partitions (sessions: KIP-227; divergence: KIP-320; the quorum: KIP-595).",
                "Batches as they lie in the log, with high watermarks and aborted transactions.",
            ),
        },
    ),
    "offsets": Family(
        "Questions about positions in a log.",
        {
            "ListOffsets": ("Ask for the offset of a time or of an end of the log.", "Offsets by time."),
            "OffsetForLeaderEpoch": (
                "Ask where a leader epoch ended (KIP-320).",
                "End offsets of leader epochs.",
            ),
            "DeleteRecords": ("Drop all records before an offset (KIP-107).", "New starts of the logs."),
        },
    ),
    "cluster": Family(
        "What a client asks first: which versions, which nodes, which leaders.",
        {
            "ApiVersions": (
                "Ask which APIs and features a node has (KIP-35, KIP-511, KIP-584).",
                "APIs with their version ranges, and the cluster's features.",
            ),
            "Metadata": ("Ask for nodes, topics and leaders.", "Nodes, topics, partitions and leaders."),
            "DescribeCluster": (
                "Ask for the nodes of the cluster (KIP-700; controllers: KIP-919).",
                "Nodes and the cluster's id.",
            ),
            "DescribeTopicPartitions": (
                "Ask for the partitions of topics page by page (KIP-966).",
                "One page of partitions and where the next one begins.",
            ),
        },
    ),
    "topics": Family(
        "Making and removing topics and partitions.",
        {
            "CreateTopics": ("Create topics.", "What became of each topic, with its id and its settings."),
            "DeleteTopics": ("Delete topics by name or by id (KIP-516).", "What became of each topic."),
            "CreatePartitions": ("Give topics more partitions (KIP-195).", "What became of each topic."),
        },
    ),
    "reassignment": Family(
        "Moving replicas and leadership.",
        {
            "ElectLeaders": ("Elect leaders of partitions (KIP-183, KIP-460).", "Result per partition."),
            "AlterPartitionReassignments": (
                "Move partitions to other replicas (KIP-455; factor check: KIP-860).",
                "Result per partition.",
            ),
            "ListPartitionReassignments": ("Ask which partitions move (KIP-455).", "Moves in progress."),
            "AlterReplicaLogDirs": (
                "Move replicas between log directories (KIP-113).",
                "Result per replica.",
            ),
            "DescribeLogDirs": ("Ask what lies in the log directories.", "Directories, replicas, sizes."),
            "AssignReplicasToDirs": (
                "A broker tells the controller on which disk its replicas are (KIP-858).",
                "Result per replica.",
            ),
        },
    ),
    "groups": Family(
        "Consumer groups, classic protocol, and committed offsets.",
        {
            "FindCoordinator": ("Ask who coordinates a key (KIP-699).", "The coordinator of each key."),
            "JoinGroup": (
                "Enter a group or a new generation.",
                "The generation and, for its leader, the members.",
            ),
            "SyncGroup": ("Hand in (leader) or ask for (members) the assignment.", "A member's assignment."),
            "Heartbeat": ("A member is alive.", "Whether the group rebalances."),
            "LeaveGroup": ("Members leave (KIP-345).", "Result per member."),
            "OffsetCommit": ("Keep a group's positions.", "Result per partition."),
            "OffsetFetch": ("Ask for a group's positions (KIP-709).", "Positions per partition."),
            "OffsetDelete": ("Forget a group's positions (KIP-496).", "Result per partition."),
            "DescribeGroups": ("Ask for groups of the classic protocol.", "States and members of groups."),
            "ListGroups": ("Ask which groups there are (KIP-518, KIP-848).", "Groups with type and state."),
            "DeleteGroups": ("Delete empty groups (KIP-229).", "Result per group."),
        },
    ),
    "consumer_groups": Family(
        "Consumer groups whose assignments the broker makes (KIP-848).",
        {
            "ConsumerGroupHeartbeat": ("A member tells what it has and wants.", "What the member shall own."),
            "ConsumerGroupDescribe": ("Ask for consumer groups.", "Members and their assignments."),
        },
    ),
    "share_groups": Family(
        "Share groups: several consumers on one partition (KIP-932).",
        {
            "ShareGroupHeartbeat": ("A member tells what it subscribes to.", "What the member shall read."),
            "ShareGroupDescribe": ("Ask for share groups.", "Members and their assignments."),
            "ShareFetch": ("Acquire records, and acknowledge earlier ones.", "Acquired records."),
            "ShareAcknowledge": ("Accept, release or reject acquired records.", "Result per partition."),
            "DescribeShareGroupOffsets": ("Ask where share groups begin.", "Start offsets and lags."),
            "AlterShareGroupOffsets": ("Move where a share group begins.", "Result per partition."),
            "DeleteShareGroupOffsets": ("Forget where a share group begins.", "Result per topic."),
        },
    ),
    "share_state": Family(
        "How share groups keep their state (KIP-932): between brokers, and as records.",
        {
            "InitializeShareGroupState": ("Begin the state of partitions.", "Result per partition."),
            "ReadShareGroupState": ("Ask for the state of partitions.", "State per partition."),
            "WriteShareGroupState": ("Keep the state of partitions.", "Result per partition."),
            "DeleteShareGroupState": ("Drop the state of partitions.", "Result per partition."),
            "ReadShareGroupStateSummary": ("Ask where partitions begin.", "Start offset per partition."),
        },
        {
            "ShareSnapshotKey": "Key of the full state of a partition.",
            "ShareSnapshotValue": "Full state of a partition.",
            "ShareUpdateKey": "Key of a change of a partition's state.",
            "ShareUpdateValue": "Change of a partition's state.",
        },
    ),
    "streams_groups": Family(
        "Groups of Kafka Streams applications (KIP-1071).",
        {
            "StreamsGroupHeartbeat": (
                "A member tells its topology and tasks.",
                "Tasks the member shall run.",
            ),
            "StreamsGroupDescribe": ("Ask for streams groups.", "Topology, members and tasks."),
            "StreamsGroupTopologyDescriptionUpdate": (
                "A member describes its topology (KIP-1331).",
                "Whether it was kept.",
            ),
        },
    ),
    "transactions": Family(
        "Idempotent producers and transactions (KIP-98, KIP-890).",
        {
            "InitProducerId": ("Ask for a producer id and epoch.", "The producer's id and epoch."),
            "AddPartitionsToTxn": (
                "Partitions join a transaction, or brokers verify that.",
                "Result per partition.",
            ),
            "AddOffsetsToTxn": ("A group's offsets join a transaction.", "Whether they did."),
            "EndTxn": ("Commit or abort a transaction.", "Whether it is, and the next epoch."),
            "WriteTxnMarkers": ("The coordinator asks leaders to write markers.", "Result per partition."),
            "TxnOffsetCommit": ("Keep positions within a transaction (KIP-447).", "Result per partition."),
            "DescribeProducers": ("Ask who produces to partitions (KIP-664).", "Producers per partition."),
            "DescribeTransactions": ("Ask for transactions (KIP-664).", "States of transactions."),
            "ListTransactions": ("Ask which transactions there are (KIP-664).", "Transactions and states."),
            "AllocateProducerIds": ("A broker asks for a block of producer ids (KIP-730).", "The block."),
        },
    ),
    "acls": Family(
        "Who may do what.",
        {
            "DescribeAcls": ("Ask for rules.", "Rules by resource."),
            "CreateAcls": ("Add rules.", "Result per rule."),
            "DeleteAcls": ("Remove the rules that filters match.", "What each filter removed."),
        },
    ),
    "configs": Family(
        "Settings and features of the cluster.",
        {
            "DescribeConfigs": ("Ask for settings.", "Settings with their sources."),
            "AlterConfigs": ("Replace all settings of resources.", "Result per resource."),
            "IncrementalAlterConfigs": ("Change single settings (KIP-339).", "Result per resource."),
            "ListConfigResources": (
                "Ask what has settings (KIP-714, KIP-1142).",
                "Names of things that have settings.",
            ),
            "UpdateFeatures": ("Raise or lower feature levels (KIP-584).", "Result per feature."),
        },
    ),
    "quotas": Family(
        "Quotas of clients (KIP-546).",
        {
            "DescribeClientQuotas": ("Ask for quotas.", "Quotas by entity."),
            "AlterClientQuotas": ("Change quotas.", "Result per entity."),
        },
    ),
    "sasl": Family(
        "Who is there: SASL, SCRAM credentials and delegation tokens.",
        {
            "SaslHandshake": ("Choose a mechanism.", "Mechanisms of this listener."),
            "SaslAuthenticate": ("One step of the mechanism.", "The answering step (KIP-152, KIP-368)."),
            "DescribeUserScramCredentials": (
                "Ask for SCRAM users (KIP-554).",
                "Users, mechanisms, iterations.",
            ),
            "AlterUserScramCredentials": ("Set or remove SCRAM credentials (KIP-554).", "Result per user."),
            "CreateDelegationToken": ("Make a token (KIP-48).", "The token."),
            "RenewDelegationToken": ("Renew a token.", "When it ends now."),
            "ExpireDelegationToken": ("End a token.", "When it ends now."),
            "DescribeDelegationToken": ("Ask for tokens.", "Tokens and their renewers."),
        },
    ),
    "quorum": Family(
        "The controllers' quorum: election, log and members (KIP-595, KIP-630, KIP-853, KIP-996).",
        {
            "Vote": ("Ask for a vote or a pre-vote.", "The vote."),
            "BeginQuorumEpoch": ("A new leader makes itself known.", "Whether it is taken as leader."),
            "EndQuorumEpoch": ("A leader resigns and names successors.", "Whether that was heard."),
            "DescribeQuorum": ("Ask for the quorum's replicas.", "Leader, voters, observers, their lags."),
            "FetchSnapshot": ("Read a part of a snapshot.", "A part of a snapshot."),
            "AddRaftVoter": ("Add a voter.", "Whether it is one."),
            "RemoveRaftVoter": ("Remove a voter.", "Whether it is none any more."),
            "UpdateRaftVoter": ("A voter tells its endpoints and versions.", "Whether they were taken."),
        },
    ),
    "brokers": Family(
        "Brokers and controllers among themselves (KIP-500, KIP-631).",
        {
            "BrokerRegistration": ("A broker asks to be of the cluster.", "Its broker epoch."),
            "BrokerHeartbeat": ("A broker is alive, and how far it is.", "Whether it is fenced or may stop."),
            "UnregisterBroker": ("Remove a broker for good.", "Whether it is."),
            "ControllerRegistration": (
                "A controller tells its endpoints (KIP-919).",
                "Whether it was heard.",
            ),
            "UnregisterController": ("Remove a controller's registration.", "Whether it is."),
            "AlterPartition": (
                "A leader asks for other in-sync replicas (KIP-497).",
                "The partition's state.",
            ),
            "Envelope": ("A broker hands on a client's request (KIP-590).", "The answer for the client."),
        },
        {"DefaultPrincipalData": "A principal inside an Envelope."},
    ),
    "telemetry": Family(
        "Metrics that clients send (KIP-714).",
        {
            "GetTelemetrySubscriptions": ("Ask which metrics to send.", "Metrics, interval, codecs."),
            "PushTelemetry": ("Metrics of a client.", "Whether they were taken."),
        },
    ),
    "metadata_records": Family(
        "Records of the metadata log: what they declare.  `metadata` reads and writes them.",
        {},
        {
            "RegisterBrokerRecord": "A broker was registered (KIP-631).",
            "UnregisterBrokerRecord": "A broker was removed for good.",
            "BrokerRegistrationChangeRecord": "A broker's fence, controlled shutdown or directories changed.",
            "FenceBrokerRecord": "A broker is fenced (clusters older than 3.3).",
            "UnfenceBrokerRecord": "A broker is no longer fenced (clusters older than 3.3).",
            "RegisterControllerRecord": "A controller told its endpoints (KIP-919).",
            "UnregisterControllerRecord": "A controller's registration was removed.",
            "TopicRecord": "A topic was made.",
            "PartitionRecord": "A partition was made, or is so in a snapshot.",
            "PartitionChangeRecord": "A partition's replicas or leader changed.",
            "RemoveTopicRecord": "A topic is gone.",
            "ClearElrRecord": "Eligible leader replicas are forgotten (KIP-966).",
            "ConfigRecord": "A setting changed.",
            "FeatureLevelRecord": "A feature has a level (KIP-584).",
            "ClientQuotaRecord": "A quota changed.",
            "ProducerIdsRecord": "A block of producer ids was given out.",
            "UserScramCredentialRecord": "A user has a SCRAM credential.",
            "RemoveUserScramCredentialRecord": "A SCRAM credential is gone.",
            "AccessControlEntryRecord": "A rule was added.",
            "RemoveAccessControlEntryRecord": "A rule is gone.",
            "DelegationTokenRecord": "A delegation token was made or renewed.",
            "RemoveDelegationTokenRecord": "A delegation token is gone.",
            "BeginTransactionRecord": "Records follow that count together or not at all (KIP-868).",
            "EndTransactionRecord": "The records since the begin count.",
            "AbortTransactionRecord": "The records since the begin do not count.",
            "NoOpRecord": "Nothing, so that the log moves (KIP-835).",
            "ZkMigrationRecord": "Where a migration from ZooKeeper stands (KIP-866).",
        },
    ),
    "control_records": Family(
        "Control records: what the quorum and transactions write between the records.  `control` reads them.",
        {},
        {
            "LeaderChangeMessage": "A leader begins its epoch (KIP-595, KIP-853).",
            "SnapshotHeaderRecord": "First record of a snapshot (KIP-630).",
            "SnapshotFooterRecord": "Last record of a snapshot (KIP-630).",
            "KRaftVersionRecord": "The quorum's feature level (KIP-853).",
            "VotersRecord": "The voters from here on (KIP-853).",
            "EndTxnMarker": "A transaction ends here (KIP-98).",
        },
    ),
    "consumer_protocol": Family(
        "What classic group members hand each other inside JoinGroup and SyncGroup.",
        {},
        {
            "ConsumerProtocolSubscription": "What a member wants and owns (KIP-429, KIP-792, KIP-881).",
            "ConsumerProtocolAssignment": "What a member shall own.",
        },
    ),
    "group_records": Family(
        "Records of __consumer_offsets.  `coordinator` reads and writes them.",
        {},
        {
            "LegacyOffsetCommitKey": "Key of a committed offset, oldest form.",
            "LegacyOffsetCommitValue": "A committed offset, oldest form.",
            "OffsetCommitKey": "Key of a committed offset.",
            "OffsetCommitValue": "A committed offset.",
            "GroupMetadataKey": "Key of a classic group.",
            "GroupMetadataValue": "A classic group with its members.",
            "ConsumerGroupMetadataKey": "Key of a consumer group (KIP-848).",
            "ConsumerGroupMetadataValue": "A consumer group's epoch.",
            "ConsumerGroupPartitionMetadataKey": "Key of the topics a group saw (no longer written).",
            "ConsumerGroupPartitionMetadataValue": "Topics a group saw (no longer written).",
            "ConsumerGroupMemberMetadataKey": "Key of a member.",
            "ConsumerGroupMemberMetadataValue": "A member and what it subscribes to.",
            "ConsumerGroupTargetAssignmentMetadataKey": "Key of the epoch of the target assignment.",
            "ConsumerGroupTargetAssignmentMetadataValue": "Epoch of the target assignment.",
            "ConsumerGroupTargetAssignmentMemberKey": "Key of what a member shall own.",
            "ConsumerGroupTargetAssignmentMemberValue": "What a member shall own.",
            "ConsumerGroupCurrentMemberAssignmentKey": "Key of what a member owns.",
            "ConsumerGroupCurrentMemberAssignmentValue": "What a member owns.",
            "ConsumerGroupRegularExpressionKey": "Key of a subscription by pattern.",
            "ConsumerGroupRegularExpressionValue": "Topics that a pattern matched.",
        },
    ),
    "share_group_records": Family(
        "Records of share groups in __consumer_offsets (KIP-932).",
        {},
        {
            "ShareGroupMetadataKey": "Key of a share group.",
            "ShareGroupMetadataValue": "A share group's epoch.",
            "ShareGroupMemberMetadataKey": "Key of a member.",
            "ShareGroupMemberMetadataValue": "A member and what it subscribes to.",
            "ShareGroupTargetAssignmentMetadataKey": "Key of the epoch of the target assignment.",
            "ShareGroupTargetAssignmentMetadataValue": "Epoch of the target assignment.",
            "ShareGroupTargetAssignmentMemberKey": "Key of what a member shall read.",
            "ShareGroupTargetAssignmentMemberValue": "What a member shall read.",
            "ShareGroupCurrentMemberAssignmentKey": "Key of what a member reads.",
            "ShareGroupCurrentMemberAssignmentValue": "What a member reads.",
            "ShareGroupStatePartitionMetadataKey": "Key of the partitions whose state exists.",
            "ShareGroupStatePartitionMetadataValue": "Partitions whose state exists.",
        },
    ),
    "streams_group_records": Family(
        "Records of streams groups in __consumer_offsets (KIP-1071).",
        {},
        {
            "StreamsGroupMetadataKey": "Key of a streams group.",
            "StreamsGroupMetadataValue": "A streams group's epoch.",
            "StreamsGroupMemberMetadataKey": "Key of a member.",
            "StreamsGroupMemberMetadataValue": "A member and its process.",
            "StreamsGroupTopologyKey": "Key of a topology.",
            "StreamsGroupTopologyValue": "A topology.",
            "StreamsGroupTargetAssignmentMetadataKey": "Key of the epoch of the target assignment.",
            "StreamsGroupTargetAssignmentMetadataValue": "Epoch of the target assignment.",
            "StreamsGroupTargetAssignmentMemberKey": "Key of the tasks a member shall run.",
            "StreamsGroupTargetAssignmentMemberValue": "Tasks a member shall run.",
            "StreamsGroupCurrentMemberAssignmentKey": "Key of the tasks a member runs.",
            "StreamsGroupCurrentMemberAssignmentValue": "Tasks a member runs.",
        },
    ),
    "transaction_records": Family(
        "Records of __transaction_state, and a log's snapshot of its producers.",
        {},
        {
            "TransactionLogKey": "Key of a transactional id.",
            "TransactionLogValue": "State of a transactional id.",
            "ProducerSnapshot": "The producers of a partition at an offset (a file beside the segments).",
        },
    ),
}
