"""Every setting of a node in one table: Kafka's name, Kafka's default, ours, and why ours where it differs.

Names, types, defaults and bounds are those of Apache Kafka 4.4.0; a name that starts with `barnabas.` has
no counterpart there.  The rows of the quorum and of the process stand in `table_quorum`, the settings of topics
in `topics`, of groups and telemetry in `resources`.  `config.Config` reads the table, `docs/configuration.md`
is printed from it, and a test holds that every row is used by something outside it.
"""

from __future__ import annotations

import sys

from barnabas.settings.setting import MAX_INT, MAX_LONG, REQUIRED, Update, section

__all__ = ["CODECS"]

CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
ON_CLUSTER: Update = "cluster-wide"

# fmt: off
# One row is read as a whole; the formatter would give every argument a line of its own.
_s = section("Who this node is and where it listens")
_s("process.roles", "list", REQUIRED,
   "What this node does: `broker`, `controller` or both.",
   ours=("broker", "controller"), choices=("broker", "controller"),
   why="a node without settings is a whole cluster")
_s("node.id", "int", REQUIRED,
   "Number of this node, unique in the cluster.",
   ours=1, low=0, high=MAX_INT,
   why="a node without settings is the only one")
_s("barnabas.cluster.id", "string", None,
   "The cluster whose directories this node may open; unset: whichever they are of. Without it a node whose "
   "`log.dirs` were swapped with those of another cluster serves that cluster at its own address.",
   why="Kafka has no such setting")
_s("broker.rack", "string", None,
   "Where this broker stands; replicas of a partition are spread over racks.")
_s("listeners", "list", ("PLAINTEXT://:9092",),
   "Addresses to listen on, as `NAME://host:port`. An empty host means every interface; port 0 takes a "
   "free one.",
   ours=("PLAINTEXT://127.0.0.1:9092", "CONTROLLER://127.0.0.1:9093"),
   why="only this machine reaches it until you choose another address")
_s("advertised.listeners", "list", None,
   "Addresses that clients are told. Without it each client is told the address it dialled, so a node "
   "behind a port mapping or with several names works unconfigured.")
_s("controller.listener.names", "list", REQUIRED,
   "Names of the listeners that serve the controllers' protocol.",
   ours=("CONTROLLER",),
   why="the name everybody uses")
_s("inter.broker.listener.name", "string", None,
   "Listener that other brokers use to reach this one (default: the first that is not a controller "
   "listener).")
_s("listener.security.protocol.map", "list",
   ("SASL_SSL:SASL_SSL", "PLAINTEXT:PLAINTEXT", "SSL:SSL", "SASL_PLAINTEXT:SASL_PLAINTEXT"),
   "Security protocol of each listener name: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
   ours=(
       "SASL_SSL:SASL_SSL", "PLAINTEXT:PLAINTEXT", "SSL:SSL", "SASL_PLAINTEXT:SASL_PLAINTEXT",
       "CONTROLLER:PLAINTEXT",
   ),
   why="names our default controller listener")

_s = section("Connections and memory")
_s("socket.request.max.bytes", "int", 104857600,
   "Largest request, in bytes; a connection that announces more is closed.", low=1, high=MAX_INT)
_s("socket.listen.backlog.size", "int", 50,
   "Connections the kernel holds for us before we accept them.",
   ours=1024, low=1, high=65535,
   why="a thousand clients that reconnect at once are not refused")
_s("socket.send.buffer.bytes", "int", 102400,
   "SO_SNDBUF of client connections; -1 leaves it to the kernel.",
   ours=-1, low=-1, high=MAX_INT,
   why="the kernel tunes it by itself")
_s("socket.receive.buffer.bytes", "int", 102400,
   "SO_RCVBUF of client connections; -1 leaves it to the kernel.",
   ours=-1, low=-1, high=MAX_INT,
   why="the kernel tunes it by itself")
_s("connections.max.idle.ms", "long", 600000,
   "A connection with no traffic in either direction for this long is closed; -1 never.",
   low=-1, high=MAX_LONG)
_s("max.connections", "int", MAX_INT,
   "Connections that this node serves; it closes any further one at once. Those that have not logged in yet are "
   "counted by `barnabas.unauthenticated.connections`. The default is less where this process may not open "
   "as many files: four fifths of those. Of one listener besides: `listener.name.<name>.max.connections`.",
   ours=10000, low=1, high=MAX_INT, update=ON_CLUSTER,
   why="a finite default below the usual limits on descriptors")
_s("barnabas.reserved.connections", "int", 32,
   "How many of `max.connections`, a tenth of them at most, are kept for nodes (whoever may do ClusterAction) and "
   "super users. Who has no login has them at listeners that are for nodes alone.", low=0, high=MAX_INT)
_s("max.connections.per.ip", "int", MAX_INT,
   "Connections accepted from one address.", ours=1000, low=0, high=MAX_INT, update=ON_CLUSTER,
   why="one machine that leaks connections does not take them from all others")
_s("max.connection.creation.rate", "int", MAX_INT,
   "Connections per second that this node takes, measured as quotas are; one that comes sooner is held until it "
   "is due. Listeners that are for nodes alone do not wait for others. Of one listener: "
   "`listener.name.<name>.max.connection.creation.rate`.",
   ours=500, low=1, high=MAX_INT, update=ON_CLUSTER,
   why="a TLS handshake costs most of a millisecond: a storm of them leaves time for those who are connected")
_s("max.connections.per.ip.overrides", "list", (),
   "Addresses with a limit of their own, as `10.0.0.7:200`; names of hosts are not looked up.",
   update=ON_CLUSTER, may_repeat=True)
_s("quota.window.num", "int", 11,
   "Windows over which the rate of a client is measured for its quotas. A client may use the worth of all "
   "full ones at once.", low=1, high=MAX_INT)
_s("quota.window.size.seconds", "int", 1, "Length of such a window.", low=1, high=MAX_INT)
_s("controller.quota.window.num", "int", 11,
   "Windows of `controller_mutation_rate`: a client may use the worth of all of them at once.",
   low=1, high=MAX_INT)
_s("controller.quota.window.size.seconds", "int", 1, "Length of such a window.", low=1, high=MAX_INT)
_s("queued.max.request.bytes", "long", -1,
   "Bytes that requests in progress and partly received may hold in this node together. One request of "
   "the largest size always fits; all others share the rest. Once half of that rest is used, this node "
   "stops reading from every connection that holds more than an equal part of the other half, and gives "
   "up requests that come in too slowly. -1: no limit.",
   ours=134217728, low=-1, high=MAX_LONG,
   why="a finite default: many clients with large requests cannot exhaust the machine")
_s("barnabas.connection.max.unsent.bytes", "int", 4194304,
   "This node stops reading from a connection with more unsent answer bytes than this until its peer "
   "takes them.", low=65536, high=MAX_INT)
_s("barnabas.connection.max.pipelined", "int", 256,
   "Unanswered requests of one connection; at the limit this node stops reading from it.", low=1, high=65536)
_s("barnabas.request.max.elements", "int", 250000,
   "Elements of all arrays of one request together; a request with more is malformed, and its connection is "
   "closed before they are made. An element of one byte takes a hundred in memory.", low=1000, high=MAX_INT)
_s("barnabas.max.waiters", "int", 10000,
   "Requests of all clients that may wait inside the node (long polls, acks, joins) at a time; at the "
   "limit it answers further long polls at once with what there is.", low=1, high=MAX_INT)
_s("barnabas.sendfile.min.bytes", "int", 65536,
   "Answers with at least this many record bytes go from file to socket by sendfile.", low=4096, high=MAX_INT)
_s("request.timeout.ms", "int", 30000,
   "How long this node waits for another node's answer.", low=1, high=MAX_INT)
_s("max.request.partition.size.limit", "int", 2000,
   "Most partitions in one answer to a client that looks at topics page by page.", low=1, high=MAX_INT)

_s = section("Topics made without asking")
_s("auto.create.topics.enable", "boolean", True,
   "Create a topic when a client asks for its metadata.")
_s("delete.topic.enable", "boolean", True,
   "Allow topics to be deleted.")
_s("num.partitions", "int", 1,
   "Partitions of a topic whose creator names no number.", low=1, high=MAX_INT)
_s("default.replication.factor", "int", 1,
   "Replicas of a partition whose creator names no number.", low=1, high=32767)

_s = section("Logs")
_s("log.dir", "list", ("/tmp/kafka-logs",),
   "Directory of the logs when `log.dirs` is not set.",
   ours=("barnabas-data",),
   why="in the directory where you start the node, not in one that is emptied at boot")
_s("log.dirs", "list", None,
   "Directories of the logs, one per disk.")
_s("cordoned.log.dirs", "list", (),
   "Directories of `log.dirs` that take no new replicas (`*`: all of them); the replicas there are still "
   "served (KIP-1066).",
   update="per-broker", may_repeat=True)
_s("metadata.log.dir", "string", None,
   "Directory of the metadata log (default: the first of `log.dirs`).")
_s("log.flush.interval.messages", "long", MAX_LONG,
   "1: records are synced to disk before they are acknowledged or shown to anybody; requests that arrive "
   "together share a sync. 9223372036854775807: they are acknowledged once they are in the operating "
   "system's page cache.",
   ours=1, low=1, high=MAX_LONG, update=ON_CLUSTER,
   why="what is acknowledged survives a power cut, also on a node without replicas")
_s("log.flush.interval.ms", "long", None,
   "Longest time a record stays unsynced (default: no limit of its own).",
   low=0, high=MAX_LONG, update=ON_CLUSTER)
_s("log.flush.offset.checkpoint.interval.ms", "int", 60000,
   "How often the recovery points are written to disk.", low=0, high=MAX_INT)
_s("replica.high.watermark.checkpoint.interval.ms", "long", 5000,
   "How often the high watermarks are written to disk.", low=1, high=MAX_LONG)
_s("log.segment.bytes", "int", 1073741824,
   "Size at which a new segment file starts.", low=1048576, high=MAX_INT, update=ON_CLUSTER)
_s("log.roll.ms", "long", None,
   "Age at which a new segment file starts (default: `log.roll.hours`).",
   low=1, high=MAX_LONG, update=ON_CLUSTER)
_s("log.roll.hours", "int", 168,
   "The same in hours, used when `log.roll.ms` is not set.", low=1, high=MAX_INT)
_s("log.roll.jitter.ms", "long", None,
   "The age is reduced by a random part of up to this, so that segments do not all roll at the same time.",
   low=0, high=MAX_LONG, update=ON_CLUSTER)
_s("log.roll.jitter.hours", "int", 0,
   "The same in hours, used when `log.roll.jitter.ms` is not set.", low=0, high=MAX_INT)
_s("log.retention.ms", "long", None,
   "Age after which a segment is deleted; -1 never (default: `log.retention.minutes`, else `.hours`).",
   low=-1, high=MAX_LONG, update=ON_CLUSTER)
_s("log.retention.minutes", "int", None,
   "The same in minutes.", low=-1, high=MAX_INT)
_s("log.retention.hours", "int", 168,
   "The same in hours.", low=-1, high=MAX_INT)
_s("log.retention.bytes", "long", -1,
   "Size of a partition beyond which its oldest segments are deleted; -1: no limit.",
   low=-1, high=MAX_LONG, update=ON_CLUSTER)
_s("log.retention.check.interval.ms", "long", 300000,
   "How often segments are checked for deletion.", low=1, high=MAX_LONG)
_s("log.segment.delete.delay.ms", "long", 60000,
   "How long a deleted file stays on disk for readers that still use it.",
   low=0, high=MAX_LONG, update=ON_CLUSTER)
_s("log.cleanup.policy", "list", ("delete",),
   "What happens to old records: `delete` (by age and size), `compact` (keeps the last value of each "
   "key), both, or nothing if the list is empty.",
   choices=("compact", "delete"), update=ON_CLUSTER, may_repeat=True)
_s("log.index.interval.bytes", "int", 4096,
   "Record bytes between two entries of the offset index.", low=0, high=MAX_INT, update=ON_CLUSTER)
_s("log.index.size.max.bytes", "int", 10485760,
   "Size of an index file at which a new segment starts.", low=4, high=MAX_INT, update=ON_CLUSTER)
_s("log.message.timestamp.type", "string", "CreateTime",
   "Which clock sets a record's timestamp: the producer's or the broker's.",
   choices=("CreateTime", "LogAppendTime"), update=ON_CLUSTER)
_s("log.message.timestamp.before.max.ms", "long", MAX_LONG,
   "A record older than this when it arrives is refused.", low=0, high=MAX_LONG, update=ON_CLUSTER)
_s("log.message.timestamp.after.max.ms", "long", 3600000,
   "A record whose timestamp is further in the future than this is refused.",
   low=0, high=MAX_LONG, update=ON_CLUSTER)
_s("log.cleaner.delete.retention.ms", "long", 86400000,
   "How long a tombstone (a record without a value) stays in a compacted topic, so that readers see it.",
   low=0, high=MAX_LONG, update=ON_CLUSTER)
_s("log.cleaner.min.cleanable.ratio", "double", 0.5,
   "Part of a log that must be uncompacted before it is compacted.",
   low=0, high=1, update=ON_CLUSTER)
_s("log.cleaner.min.compaction.lag.ms", "long", 0,
   "Age below which a record is never compacted away.",
   low=0, high=MAX_LONG, update=ON_CLUSTER)
_s("log.cleaner.max.compaction.lag.ms", "long", MAX_LONG,
   "Age above which a record is compacted whatever the ratio.",
   low=1, high=MAX_LONG, update=ON_CLUSTER)
_s("log.cleaner.enable", "boolean", True,
   "Compact the topics that ask for it.")
_s("log.cleaner.threads", "int", 1,
   "0: no log is compacted. Any larger number compacts one log at a time.",
   low=0, high=MAX_INT, update=ON_CLUSTER)
_s("log.cleaner.dedupe.buffer.size", "long", 134217728,
   "Memory for the keys of one round, in bytes, about 200 for each different key; a log with more new keys "
   "than fit is compacted in several rounds.", low=0, high=MAX_LONG, update=ON_CLUSTER)
_s("log.cleaner.io.buffer.load.factor", "double", 0.9,
   "Part of that memory that may be filled.", update=ON_CLUSTER)
_s("log.cleaner.io.max.bytes.per.second", "double", sys.float_info.max,
   "Most bytes that compaction reads and writes in a second. In addition, after each piece of a few "
   "milliseconds it pauses for as long as the piece took.", update=ON_CLUSTER)
_s("log.cleaner.backoff.ms", "long", 15000,
   "How often logs are checked for compaction while there is nothing to compact.",
   low=0, high=MAX_LONG, update=ON_CLUSTER)
_s("message.max.bytes", "int", 1048588,
   "Largest record batch, as it is sent, in bytes.", low=0, high=MAX_INT, update=ON_CLUSTER)
_s("max.decompressed.message.bytes", "int", 2147483639,
   "Largest record batch after decompression, in bytes.",
   ours=104857600, low=1, high=2147483639, update=ON_CLUSTER,
   why="a finite default: a small batch cannot fill the memory")
_s("compression.type", "string", "producer",
   "Codec that batches are stored with; `producer` leaves them as they arrive.",
   choices=CODECS, update=ON_CLUSTER)
_s("compression.gzip.level", "int", -1,
   "Level of gzip where the broker compresses; -1 is the codec's own. Kept with the topic; not used yet.",
   low=-1, high=9, update=ON_CLUSTER)
_s("compression.lz4.level", "int", 9,
   "Level of lz4 where the broker compresses. Kept with the topic; not used yet.",
   low=1, high=17, update=ON_CLUSTER)
_s("compression.zstd.level", "int", 3,
   "Level of zstd where the broker compresses. Kept with the topic; not used yet.",
   low=-131072, high=22, update=ON_CLUSTER)
_s("min.insync.replicas", "int", 1,
   "Replicas that must be in sync for a write with acks=all to be accepted.",
   low=1, high=MAX_INT, update=ON_CLUSTER)
_s("unclean.leader.election.enable", "boolean", False,
   "Let a replica that was not in sync lead when no other is left (this loses records).", update=ON_CLUSTER)

_s("log.dir.failure.timeout.ms", "long", 30000,
   "If one of its log directories fails and this node cannot tell the active controller for this long, it "
   "stops: only then can other brokers lead the partitions of that directory.", low=1, high=MAX_LONG)
_s("leader.replication.throttled.rate", "long", MAX_LONG,
   "Most bytes per second that this node sends to replicas that are throttled (a topic's "
   "`leader.replication.throttled.replicas`) and not in sync.", low=0, high=MAX_LONG, update="per-broker")
_s("follower.replication.throttled.rate", "long", MAX_LONG,
   "Most bytes per second that this node fetches for its own replicas that are throttled (a topic's "
   "`follower.replication.throttled.replicas`) and not in sync.", low=0, high=MAX_LONG, update="per-broker")
_s("replica.alter.log.dirs.io.max.bytes.per.second", "long", MAX_LONG,
   "Most bytes per second that are copied when replicas move between directories of this node.",
   low=1, high=MAX_LONG, update="per-broker")
_s("barnabas.disk.reserve.bytes", "long", 536870912,
   "Bytes that this node keeps free on the volume of each log directory. With less, it refuses records "
   "(with an error that producers retry) and its followers stop fetching, until 1.5 times this is free. "
   "0: no reserve.",
   low=0, high=MAX_LONG, update=ON_CLUSTER)
_s("barnabas.disk.reserve.percent", "double", 5.0,
   "Upper limit of that reserve, as a share of the volume.", low=0, high=50, update=ON_CLUSTER)
_s("barnabas.metadata.reserve.bytes", "long", 4194304,
   "Size of a file that a controller keeps beside its metadata. When the volume is full it deletes the "
   "file, and so continues, without new topics, until there is room. 0: no file; the controller then "
   "stops.", low=0, high=MAX_INT)

_s = section("Producing and fetching")
_s("fetch.max.bytes", "int", 57671680,
   "Most record bytes in one answer to a fetch.", low=1024, high=MAX_INT)
_s("max.incremental.fetch.session.cache.slots", "int", 1000,
   "Fetch sessions kept.", low=0, high=MAX_INT)
_s("producer.id.expiration.ms", "int", 86400000,
   "How long an idle idempotent producer is remembered.", low=1, high=MAX_INT, update=ON_CLUSTER)
_s("transaction.partition.verification.enable", "boolean", True,
   "Ask the coordinator of a transaction before its first batch is appended to a partition (KIP-890), so that "
   "a batch that comes late cannot open a transaction that nobody ends. Producers of transaction.version 2 "
   "are asked about in any case.", update=ON_CLUSTER)
_s("add.partitions.to.txn.retry.backoff.ms", "int", 20,
   "How long to wait before the coordinator is asked again while the last transaction of the producer is "
   "still being completed.", low=1, high=MAX_INT)
_s("add.partitions.to.txn.retry.backoff.max.ms", "int", 100,
   "How long to ask again in that case, before the producer is told to try again.", low=0, high=MAX_INT)
_s("replica.lag.time.max.ms", "long", 30000,
   "A follower that has not caught up for this long leaves the in-sync set.", low=1, high=MAX_LONG)
_s("barnabas.replica.stall.max.ms", "long", 1250,
   "A follower for which alone acknowledgements wait for this long leaves the in-sync set, if enough others "
   "have the records: as many as min.insync.replicas, and one besides the leader.", low=100, high=MAX_LONG)
_s("barnabas.scrub.interval.ms", "long", 604800000,
   "Time in which a broker reads all its segments once, in the background and with at most 1 % of a core, to "
   "find records that the disk has changed; -1: never.", low=-1, high=MAX_LONG)

_s("replica.selector.class", "string", None,
   "Where consumers that state their rack (`client.rack`) read: `...RackAwareReplicaSelector`: at a "
   "replica in their rack; `...LeaderSelector` (the same as none): at the leader.",
   choices=(
       "org.apache.kafka.common.replica.LeaderSelector",
       "org.apache.kafka.common.replica.RackAwareReplicaSelector",
   ))
_s("replica.fetch.wait.max.ms", "int", 500,
   "How long a leader may hold a follower's fetch that finds nothing new.", low=0, high=MAX_INT)
_s("replica.fetch.min.bytes", "int", 1,
   "How many bytes a follower's fetch waits for.", low=0, high=MAX_INT)
_s("replica.fetch.max.bytes", "int", 1048576,
   "Most bytes of one partition in an answer to a follower; at least one whole batch is always sent.",
   low=0, high=MAX_INT)
_s("replica.fetch.response.max.bytes", "int", 10485760,
   "Most bytes in an answer to a follower.", low=0, high=MAX_INT)
_s("replica.fetch.backoff.ms", "int", 1000,
   "Longest backoff of a partition whose fetch failed; the first ones are shorter.",
   low=0, high=MAX_INT)

_s = section("Consumer groups and offsets")
_s("group.min.session.timeout.ms", "int", 6000,
   "Shortest session timeout a member may ask for.", low=1, high=MAX_INT)
_s("group.max.session.timeout.ms", "int", 1800000,
   "Longest session timeout a member may ask for.", low=1, high=MAX_INT)
_s("group.initial.rebalance.delay.ms", "int", 3000,
   "How long the first members of an empty group wait for more.",
   ours=100, low=0, high=MAX_INT,
   why="members that start together still meet, and a single member does not wait 3 s")
_s("group.max.size", "int", MAX_INT,
   "Members of one group.", low=1, high=MAX_INT)
_s("group.coordinator.rebalance.protocols", "list", ("classic", "consumer", "streams"),
   "Protocols of groups that this node serves, as far as it knows them. Without `consumer`, clients with"
   " `group.protocol=consumer` are refused.",
   choices=("classic", "consumer", "share", "streams"), any_case=True)
_s("group.consumer.session.timeout.ms", "int", 45000,
   "How long a member of a group with `group.protocol=consumer` may be silent.", low=1, high=MAX_INT)
_s("group.consumer.heartbeat.interval.ms", "int", 5000,
   "How often such a member sends a heartbeat.", low=1, high=MAX_INT)
_s("group.consumer.min.session.timeout.ms", "int", 45000,
   "Shortest session that may be set on a group of its own (`consumer.session.timeout.ms`).", low=1, high=MAX_INT)
_s("group.consumer.max.session.timeout.ms", "int", 60000,
   "Longest session that may be set on a group of its own.", low=1, high=MAX_INT)
_s("group.consumer.min.heartbeat.interval.ms", "int", 5000,
   "Shortest interval of heartbeats that may be set on a group of its own.", low=1, high=MAX_INT)
_s("group.consumer.max.heartbeat.interval.ms", "int", 15000,
   "Longest interval of heartbeats that may be set on a group of its own.", low=1, high=MAX_INT)
_s("group.consumer.min.assignment.interval.ms", "int", 0,
   "Shortest interval of assignments that may be set on a group of its own.", low=0, high=MAX_INT)
_s("group.consumer.max.assignment.interval.ms", "int", 15000,
   "Longest interval of assignments that may be set on a group of its own.", low=0, high=MAX_INT)
_s("group.consumer.max.size", "int", MAX_INT,
   "Members of one such group.", low=1, high=MAX_INT)
_s("group.consumer.assignors", "list", ("uniform", "range"),
   "Who shares the partitions out in such a group; the first one where members name none.",
   choices=("uniform", "range"))
_s("group.consumer.migration.policy", "string", "bidirectional",
   "Whether a group with members changes its protocol: `upgrade` when a member with"
   " `group.protocol=consumer` joins a classic group, `downgrade` when the last such member leaves and classic"
   " ones stay, `bidirectional`, or `disabled`.",
   choices=("bidirectional", "upgrade", "downgrade", "disabled"), any_case=True)
_s("group.consumer.assignment.interval.ms", "int", 1000,
   "Least time between two assignments of such a group.", low=0, high=MAX_INT)
_s("group.consumer.regex.refresh.interval.ms", "int", 600000,
   "How often topics are looked up anew for patterns that members subscribe to; also when topics are made.",
   low=10000, high=MAX_INT)
_s("offsets.topic.num.partitions", "int", 50,
   "Partitions of `__consumer_offsets` when this node has it made, for the first group; afterwards its count "
   "stays.",
   low=1, high=MAX_INT)
_s("offsets.topic.replication.factor", "short", 3,
   "Replicas of `__consumer_offsets`. When it is not set: as many as there are registered brokers when the "
   "topic is made, at most 3, so that a node alone needs no setting.", low=1, high=32767)
_s("offsets.topic.segment.bytes", "int", 104857600,
   "Segment size of `__consumer_offsets`.", low=1, high=MAX_INT)
_s("offsets.retention.minutes", "int", 10080,
   "How long offsets of an empty group are kept.", low=1, high=MAX_INT)
_s("offsets.retention.check.interval.ms", "long", 600000,
   "How often offsets are checked for expiry.", low=1, high=MAX_LONG)
_s("offset.metadata.max.bytes", "int", 4096,
   "Longest metadata string of a committed offset.", low=0, high=MAX_INT)
_s("offsets.commit.timeout.ms", "int", 5000,
   "How long a commit may wait for the replicas.", low=1, high=MAX_INT)

_s = section("Transactions")
_s("transaction.state.log.num.partitions", "int", 50,
   "Partitions of `__transaction_state` when this node has it made, for the first transactional producer; "
   "afterwards its count stays.",
   low=1, high=MAX_INT)
_s("transaction.state.log.replication.factor", "short", 3,
   "Replicas of `__transaction_state`. When it is not set: as many as there are registered brokers when the "
   "topic is made, at most 3, so that a node alone needs no setting.", low=1, high=32767)
_s("transaction.state.log.min.isr", "int", 2,
   "`min.insync.replicas` of `__transaction_state`; at most as many as it has replicas, when it is not set.",
   low=1, high=MAX_INT)
_s("transaction.state.log.segment.bytes", "int", 104857600,
   "Segment size of `__transaction_state`.", low=1, high=MAX_INT)
_s("transaction.max.timeout.ms", "int", 900000,
   "Longest time a producer may ask for its transactions.", low=1, high=MAX_INT)
_s("transaction.two.phase.commit.enable", "boolean", False,
   "Whether producers may prepare transactions, which have no timeout then (KIP-939).")
_s("unstable.api.versions.enable", "boolean", False,
   "Whether versions of requests are served that Apache Kafka calls unstable: InitProducerId 6 (KIP-939).")
_s("transaction.abort.timed.out.transaction.cleanup.interval.ms", "int", 10000,
   "How often transactions are aborted whose time is over.", low=1, high=MAX_INT)
_s("transactional.id.expiration.ms", "int", 604800000,
   "How long a transactional id is kept that nobody uses.", low=1, high=MAX_INT)
_s("transaction.remove.expired.transaction.cleanup.interval.ms", "int", 3600000,
   "How often transactional ids are forgotten that nobody uses.", low=1, high=MAX_INT)

# fmt: on
