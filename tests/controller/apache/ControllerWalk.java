package org.apache.kafka.controller;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Random;
import java.util.StringJoiner;

import org.apache.kafka.common.DirectoryId;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.message.AlterPartitionReassignmentsRequestData;
import org.apache.kafka.common.message.AlterPartitionRequestData;
import org.apache.kafka.common.message.AssignReplicasToDirsRequestData;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.metadata.BrokerRegistrationChangeRecord;
import org.apache.kafka.common.metadata.ClearElrRecord;
import org.apache.kafka.common.metadata.ConfigRecord;
import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.metadata.BrokerRegistration;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.metadata.placement.StripedReplicaPlacer;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Walks at random through what the replication part of Apache Kafka's controller decides, and prints every
 * step as one line of JSON: what was asked, the code that was answered, the records that were written.
 *
 *   javac -cp "$LIBS/*" -d OUT ControllerWalk.java
 *   java -cp "OUT:$LIBS/*" org.apache.kafka.controller.ControllerWalk SEED STEPS ELR(0|1) LEVEL
 */
public class ControllerWalk {
    static final int BROKERS = 6;
    static final int TOPICS = 6;

    final Random random;
    final SnapshotRegistry registry = new SnapshotRegistry(new LogContext());
    final FeatureControlManager features;
    final ClusterControlManager cluster;
    final ConfigurationControlManager configs;
    final ReplicationControlManager replication;
    final long[] epochs = new long[BROKERS + 1];
    long offset = 100;

    ControllerWalk(long seed, boolean elr, short level) {
        random = new Random(seed);
        features = new FeatureControlManager.Builder().setSnapshotRegistry(registry)
            .setQuorumFeatures(new QuorumFeatures(0, QuorumFeatures.defaultSupportedFeatureMap(true), List.of(0)))
            .build();
        features.replay(new FeatureLevelRecord().setName("metadata.version").setFeatureLevel(level));
        if (elr) {
            features.replay(
                new FeatureLevelRecord().setName("eligible.leader.replicas.version").setFeatureLevel((short) 1));
        }
        cluster = new ClusterControlManager.Builder().setClusterId("walk").setTime(Time.SYSTEM)
            .setSnapshotRegistry(registry).setFeatureControlManager(features)
            .setReplicaPlacer(new StripedReplicaPlacer(new Random(1)))
            .setBrokerShutdownHandler((broker, clean, records) -> { }).build();
        cluster.activate();
        configs = new ConfigurationControlManager.Builder().setSnapshotRegistry(registry)
            .setFeatureControl(features).setKafkaConfigSchema(kafka.server.KafkaRaftServer.configSchema())
            .setStaticConfig(Map.of()).build();
        replication = new ReplicationControlManager.Builder().setSnapshotRegistry(registry)
            .setConfigurationControl(configs).setClusterControl(cluster).setFeatureControl(features).build();
    }

    static Uuid directory(int broker, int number) {
        return new Uuid(broker, 1000L * number);
    }

    static Uuid topic(int number) {
        return new Uuid(77, number);
    }

    void begin() {
        List<ApiMessage> records = new ArrayList<>();
        for (int broker = 1; broker <= BROKERS; broker++) {
            records.add(register(broker, false));
        }
        for (int number = 0; number < TOPICS; number++) {
            records.add(new TopicRecord().setName("t" + number).setTopicId(topic(number)));
            List<Integer> replicas = target(1 + random.nextInt(4));
            for (int index = 0; index < 1; index++) {
                List<Integer> order = replicas;
                List<Uuid> where = new ArrayList<>();
                for (int broker : order) where.add(directories() ? cluster.defaultDir(broker) : DirectoryId.MIGRATING);
                records.add(new PartitionRecord().setPartitionId(index).setTopicId(topic(number))
                    .setReplicas(order).setIsr(order).setLeader(order.get(0)).setLeaderEpoch(0)
                    .setPartitionEpoch(0).setRemovingReplicas(List.of()).setAddingReplicas(List.of())
                    .setDirectories(where));
            }
        }
        for (ApiMessage record : records) replay(record);
        print("begin", "", "", records);
    }

    RegisterBrokerRecord register(int broker, boolean fenced) {
        epochs[broker] = offset++;
        List<Uuid> where = broker <= 4 ? List.of(directory(broker, 1))
            : List.of(directory(broker, 1), directory(broker, 2));
        RegisterBrokerRecord record = new RegisterBrokerRecord().setBrokerId(broker)
            .setBrokerEpoch(epochs[broker]).setIncarnationId(new Uuid(broker, offset)).setFenced(fenced)
            .setLogDirs(where);
        if (fenced) return record;
        replay(record);
        return record;
    }

    boolean directories() {
        return features.metadataVersionOrThrow().isDirectoryAssignmentSupported();
    }

    List<Integer> target(int size) {
        List<Integer> all = new ArrayList<>();
        for (int broker = 1; broker <= BROKERS; broker++) all.add(broker);
        java.util.Collections.shuffle(all, random);
        return new ArrayList<>(all.subList(0, size));
    }

    void replay(ApiMessage record) {
        if (record instanceof RegisterBrokerRecord r) cluster.replay(r, offset);
        else if (record instanceof BrokerRegistrationChangeRecord r) cluster.replay(r);
        else if (record instanceof TopicRecord r) replication.replay(r);
        else if (record instanceof PartitionRecord r) replication.replay(r);
        else if (record instanceof PartitionChangeRecord r) replication.replay(r);
        else if (record instanceof ClearElrRecord r) replication.replay(r);
        else if (record instanceof ConfigRecord r) configs.replay(r);
        else throw new IllegalStateException(record.toString());
    }

    void step() {
        int broker = 1 + random.nextInt(BROKERS);
        int number = random.nextInt(TOPICS);
        int index = 0;
        BrokerRegistration known = cluster.brokerRegistrations().get(broker);
        List<ApiMessageAndVersion> records = new ArrayList<>();
        int kind = random.nextInt(100);
        if (kind < 12) {
            if (known.fenced()) {
                replication.handleBrokerUnfenced(broker, epochs[broker], records);
                done("unfence", args(broker), "", records);
            } else if (kind < 6) {
                replication.handleBrokerFenced(broker, records);
                done("fence", args(broker), "", records);
            } else if (kind < 8 && !known.inControlledShutdown() && leads(broker)) {
                replication.handleBrokerInControlledShutdown(broker, epochs[broker], records);
                done("leave", args(broker), "", records);
            }
        } else if (kind < 16) {
            boolean clean = random.nextInt(3) > 0;
            replication.handleBrokerShutdown(broker, clean, records);
            records.add(new ApiMessageAndVersion(register(broker, true), (short) 3));
            done("restart", args(broker, clean ? 1 : 0), "", records);
        } else if (kind < 46) {
            alterPartition(number, index);
        } else if (kind < 76) {
            reassign(number, index);
        } else if (kind < 84) {
            ElectionType type = random.nextBoolean() ? ElectionType.PREFERRED : ElectionType.UNCLEAN;
            Errors code = replication.electLeader("t" + number, index, type, records).error();
            done("elect", args(number, index, type == ElectionType.UNCLEAN ? 1 : 0), code.name(), records);
        } else if (kind < 87) {
            replication.maybeTriggerLeaderChangeForPartitionsWithoutPreferredLeader(records, 1000);
            done("balance", "", "", records);
        } else if (kind < 90) {
            replication.maybeTriggerUncleanLeaderElectionForLeaderlessPartitions(records, 1000);
            done("unclean", "", "", records);
        } else if (kind < 94) {
            if (directories()) assignDirectory(broker, number, index);
        } else if (kind < 96) {
            if (directories() && known.directories().size() > 1 && !known.fenced()) {
                Uuid lost = known.directories().get(random.nextInt(known.directories().size()));
                replication.handleDirectoriesOffline(broker, epochs[broker], List.of(lost), records);
                done("lost", args(broker) + ",\"" + lost + "\"", "", records);
            }
        } else {
            String name = kind < 98 ? "min.insync.replicas" : "unclean.leader.election.enable";
            String value = kind < 98 ? "" + (1 + random.nextInt(3)) : "" + (random.nextInt(3) == 0);
            records.add(new ApiMessageAndVersion(
                new ConfigRecord().setResourceType(ConfigResource.Type.TOPIC.id()).setResourceName("t" + number)
                    .setName(name).setValue(value), (short) 0));
            if (kind < 98 && features.isElrFeatureEnabled()) {
                records.add(new ApiMessageAndVersion(new ClearElrRecord().setTopicName("t" + number), (short) 0));
            }
            done("config", "", "", records);
        }
    }

    boolean leads(int broker) {
        for (int number = 0; number < TOPICS; number++) {
            for (int index = 0; index < 1; index++) {
                if (replication.getPartition(topic(number), index).leader == broker) return true;
            }
        }
        return false;
    }

    void alterPartition(int number, int index) {
        PartitionRegistration part = replication.getPartition(topic(number), index);
        int sender = part.leader > 0 && random.nextInt(12) > 0 ? part.leader : 1 + random.nextInt(BROKERS);
        List<AlterPartitionRequestData.BrokerState> isr = new ArrayList<>();
        List<Integer> wanted = new ArrayList<>();
        for (int replica : part.replicas) {
            if (replica == sender || random.nextInt(4) > 0) wanted.add(replica);
        }
        if (random.nextInt(30) == 0) wanted.add(1 + random.nextInt(BROKERS));
        StringJoiner members = new StringJoiner(",", "[", "]");
        for (int replica : wanted) {
            long epoch = random.nextInt(20) == 0 ? epochs[replica] - 1 : random.nextInt(10) == 0 ? -1 : epochs[replica];
            isr.add(new AlterPartitionRequestData.BrokerState().setBrokerId(replica).setBrokerEpoch(epoch));
            members.add("[" + replica + "," + epoch + "]");
        }
        int leaderEpoch = part.leaderEpoch + (random.nextInt(15) == 0 ? random.nextInt(3) - 1 : 0);
        int partitionEpoch = part.partitionEpoch + (random.nextInt(15) == 0 ? random.nextInt(3) - 1 : 0);
        byte recovery = (byte) (random.nextInt(10) == 0 ? 1 : 0);
        AlterPartitionRequestData request = new AlterPartitionRequestData().setBrokerId(sender)
            .setBrokerEpoch(epochs[sender]).setTopics(List.of(new AlterPartitionRequestData.TopicData()
                .setTopicId(topic(number)).setPartitions(List.of(new AlterPartitionRequestData.PartitionData()
                    .setPartitionIndex(index).setNewIsrWithEpochs(isr).setLeaderEpoch(leaderEpoch)
                    .setPartitionEpoch(partitionEpoch).setLeaderRecoveryState(recovery)))));
        ControllerRequestContext context = new ControllerRequestContext(
            new RequestHeaderData().setRequestApiVersion((short) 3), KafkaPrincipal.ANONYMOUS, OptionalLong.empty());
        var result = replication.alterPartition(context, request);
        short code = result.response().topics().get(0).partitions().get(0).errorCode();
        done("alter", args(number, index, sender, leaderEpoch, partitionEpoch, recovery) + "," + members,
            Errors.forCode(code).name(), result.records());
    }

    void reassign(int number, int index) {
        PartitionRegistration part = replication.getPartition(topic(number), index);
        List<Integer> target = random.nextInt(4) == 0 ? null : target(1 + random.nextInt(4));
        if (target != null && random.nextInt(25) == 0) target.add(target.get(0));
        if (target != null && random.nextInt(25) == 0) target.add(9);
        if (target != null && random.nextInt(25) == 0) target.clear();
        if (target != null && (part.addingReplicas.length > 0 || part.removingReplicas.length > 0)) {
            // A wish that adds nobody, or takes nobody away, leaves the lists of the wish before in force.
            List<Integer> now = Arrays.stream(part.replicas).boxed().toList();
            if (target.containsAll(now) || now.containsAll(target)) return;
        }
        if (target != null && !directories()) {
            // Kafka 4.3.1 fails to replay another number of replicas at these levels.
            target = new ArrayList<>(Arrays.stream(part.replicas).boxed().toList());
            java.util.Collections.shuffle(target, random);
        }
        boolean factor = random.nextInt(4) > 0;
        AlterPartitionReassignmentsRequestData request = new AlterPartitionReassignmentsRequestData()
            .setAllowReplicationFactorChange(factor).setTopics(List.of(
                new AlterPartitionReassignmentsRequestData.ReassignableTopic().setName("t" + number).setPartitions(
                    List.of(new AlterPartitionReassignmentsRequestData.ReassignablePartition()
                        .setPartitionIndex(index).setReplicas(target)))));
        var result = replication.alterPartitionReassignments(request);
        short code = result.response().responses().get(0).partitions().get(0).errorCode();
        done("reassign", args(number, index, factor ? 1 : 0) + "," + target, Errors.forCode(code).name(),
            result.records());
    }

    void assignDirectory(int broker, int number, int index) {
        Uuid where = directory(broker, 1 + random.nextInt(2));
        var request = new AssignReplicasToDirsRequestData().setBrokerId(broker).setBrokerEpoch(epochs[broker])
            .setDirectories(List.of(new AssignReplicasToDirsRequestData.DirectoryData().setId(where).setTopics(
                List.of(new AssignReplicasToDirsRequestData.TopicData().setTopicId(topic(number)).setPartitions(
                    List.of(new AssignReplicasToDirsRequestData.PartitionData().setPartitionIndex(index)))))));
        var result = replication.handleAssignReplicasToDirs(request);
        short code = result.response().directories().get(0).topics().get(0).partitions().get(0).errorCode();
        done("assign", args(broker, number, index) + ",\"" + where + "\"", Errors.forCode(code).name(),
            result.records());
    }

    static String args(long... numbers) {
        StringJoiner joined = new StringJoiner(",");
        for (long number : numbers) joined.add("" + number);
        return joined.toString();
    }

    void done(String what, String args, String code, List<ApiMessageAndVersion> written) {
        List<ApiMessage> records = new ArrayList<>();
        for (ApiMessageAndVersion record : written) {
            replay(record.message());
            records.add(record.message());
        }
        offset += records.size();
        print(what, args, code, records);
    }

    void print(String what, String args, String code, List<ApiMessage> records) {
        StringJoiner joined = new StringJoiner(",");
        for (ApiMessage record : records) joined.add(json(record));
        System.out.println("{\"do\":\"" + what + "\",\"with\":[" + args + "],\"code\":\"" + code + "\",\"records\":["
            + joined + "]}");
    }

    static String quoted(List<Uuid> ids) {
        StringJoiner joined = new StringJoiner(",", "[", "]");
        for (Uuid id : ids) joined.add("\"" + id + "\"");
        return joined.toString();
    }

    static String json(ApiMessage record) {
        StringJoiner fields = new StringJoiner(",", "{", "}");
        fields.add("\"kind\":\"" + record.getClass().getSimpleName() + "\"");
        if (record instanceof PartitionChangeRecord r) {
            fields.add("\"topic_id\":\"" + r.topicId() + "\"").add("\"partition_id\":" + r.partitionId());
            if (r.isr() != null) fields.add("\"isr\":" + r.isr());
            if (r.leader() != -2) fields.add("\"leader\":" + r.leader());
            if (r.replicas() != null) fields.add("\"replicas\":" + r.replicas());
            if (r.removingReplicas() != null) fields.add("\"removing_replicas\":" + r.removingReplicas());
            if (r.addingReplicas() != null) fields.add("\"adding_replicas\":" + r.addingReplicas());
            if (r.leaderRecoveryState() != -1) fields.add("\"leader_recovery_state\":" + r.leaderRecoveryState());
            if (r.directories() != null) fields.add("\"directories\":" + quoted(r.directories()));
            if (r.eligibleLeaderReplicas() != null)
                fields.add("\"eligible_leader_replicas\":" + r.eligibleLeaderReplicas());
            if (r.lastKnownElr() != null) fields.add("\"last_known_elr\":" + r.lastKnownElr());
        } else if (record instanceof PartitionRecord r) {
            fields.add("\"topic_id\":\"" + r.topicId() + "\"").add("\"partition_id\":" + r.partitionId())
                .add("\"replicas\":" + r.replicas()).add("\"directories\":" + quoted(r.directories()));
        } else if (record instanceof TopicRecord r) {
            fields.add("\"topic_id\":\"" + r.topicId() + "\"").add("\"name\":\"" + r.name() + "\"");
        } else if (record instanceof RegisterBrokerRecord r) {
            fields.add("\"broker_id\":" + r.brokerId()).add("\"broker_epoch\":" + r.brokerEpoch())
                .add("\"fenced\":" + r.fenced()).add("\"log_dirs\":" + quoted(r.logDirs()));
        } else if (record instanceof BrokerRegistrationChangeRecord r) {
            fields.add("\"broker_id\":" + r.brokerId()).add("\"broker_epoch\":" + r.brokerEpoch())
                .add("\"fenced\":" + r.fenced()).add("\"in_controlled_shutdown\":" + r.inControlledShutdown())
                .add("\"log_dirs\":" + quoted(r.logDirs()));
        } else if (record instanceof ConfigRecord r) {
            fields.add("\"resource_type\":" + r.resourceType())
                .add("\"resource_name\":\"" + r.resourceName() + "\"").add("\"name\":\"" + r.name() + "\"")
                .add("\"value\":\"" + r.value() + "\"");
        } else if (record instanceof ClearElrRecord r) {
            fields.add("\"topic_name\":\"" + r.topicName() + "\"");
        }
        return fields.toString();
    }

    public static void main(String[] args) {
        ControllerWalk walk = new ControllerWalk(
            Long.parseLong(args[0]), args[2].equals("1"), Short.parseShort(args[3]));
        walk.begin();
        int steps = Integer.parseInt(args[1]);
        for (int number = 0; number < steps; number++) walk.step();
    }
}
