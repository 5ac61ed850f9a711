package org.apache.kafka.clients.consumer;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import kgroup.RandomMessages;

import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.internals.AbstractStickyAssignor.MemberData;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.types.Struct;
import org.apache.kafka.connect.runtime.distributed.ConnectProtocol;
import org.apache.kafka.connect.runtime.distributed.ExtendedAssignment;
import org.apache.kafka.connect.runtime.distributed.ExtendedWorkerState;
import org.apache.kafka.connect.runtime.distributed.IncrementalCooperativeConnectProtocol;
import org.apache.kafka.connect.util.ConnectorTaskId;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.internals.assignment.AssignmentInfo;
import org.apache.kafka.streams.processor.internals.assignment.SubscriptionInfo;
import org.apache.kafka.streams.state.HostInfo;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;

/**
 * Random bytes that assignors, Streams and Connect put into a group, written and read by themselves.
 *
 * Arguments: seed, cases of each kind. Prints a JSON object a line: kind, bytes (hex), and under
 * "read" what Kafka's own reader sees in them. Kinds: sticky, cooperative-sticky (of both some with
 * damaged bytes), stream-subscription, stream-assignment, connect-metadata, connect-assignment.
 */
public class RandomMemberMetadata extends RandomMessages {
    private static final ObjectMapper JSON = new ObjectMapper();

    private RandomMemberMetadata(long seed) {
        super(seed);
    }

    public static void main(String[] args) throws Exception {
        RandomMemberMetadata made = new RandomMemberMetadata(Long.parseLong(args[0]));
        for (int i = Integer.parseInt(args[1]); i > 0; i--) {
            made.sticky();
            made.cooperative();
            made.streamSubscription(1 + i % 11);
            made.streamAssignment(1 + i % 11);
            made.connect(i % 3);
        }
        System.out.flush();
    }

    private void print(String kind, ByteBuffer bytes, ObjectNode read) throws Exception {
        byte[] array = new byte[bytes.remaining()];
        bytes.duplicate().get(array);
        ObjectNode line = JSON.createObjectNode();
        line.put("kind", kind);
        line.put("bytes", HexFormat.of().formatHex(array));
        line.set("read", read);
        System.out.write((line + "\n").getBytes(StandardCharsets.UTF_8));
    }

    private void sticky() throws Exception {
        StickyAssignor assignor = new StickyAssignor();
        ByteBuffer data;
        if (chance(3)) {
            Struct old = new Struct(StickyAssignor.STICKY_ASSIGNOR_USER_DATA_V0);
            List<Struct> topics = new ArrayList<>();
            for (int i = size(); i > 0; i--) {
                Object[] partitions = new Object[size()];
                for (int j = 0; j < partitions.length; j++) {
                    partitions[j] = (int) integer();
                }
                topics.add(new Struct(StickyAssignor.TOPIC_ASSIGNMENT)
                    .set(StickyAssignor.TOPIC_KEY_NAME, text())
                    .set(StickyAssignor.PARTITIONS_KEY_NAME, partitions));
            }
            old.set(StickyAssignor.TOPIC_PARTITIONS_KEY_NAME, topics.toArray());
            data = ByteBuffer.allocate(old.sizeOf());
            old.writeTo(data);
            data.flip();
        } else {
            assignor.onAssignment(new Assignment(new ArrayList<>(partitions())), generation());
            data = assignor.subscriptionUserData(Set.of());
        }
        data = perhapsDamaged(data);
        Subscription subscription = new Subscription(List.of(), data.duplicate());
        print("sticky", data, memberData(assignor.memberData(subscription)));
    }

    private void cooperative() throws Exception {
        CooperativeStickyAssignor assignor = new CooperativeStickyAssignor();
        assignor.onAssignment(new Assignment(List.of()), generation());
        ByteBuffer data = perhapsDamaged(assignor.subscriptionUserData(Set.of()));
        Subscription subscription = new Subscription(List.of(), data.duplicate());
        print("cooperative-sticky", data, memberData(assignor.memberData(subscription)));
    }

    private ObjectNode memberData(MemberData data) {
        ObjectNode read = JSON.createObjectNode();
        read.set("partitions", topicPartitions(data.partitions));
        read.put("generation", data.generation.orElse(null));
        return read;
    }

    private ByteBuffer perhapsDamaged(ByteBuffer data) {
        byte[] bytes = new byte[data.remaining()];
        data.duplicate().get(bytes);
        if (chance(3) && bytes.length > 0) {
            bytes[random.nextInt(bytes.length)] ^= (byte) (1 << random.nextInt(8));
            return ByteBuffer.wrap(bytes, 0, 1 + random.nextInt(bytes.length));
        }
        return ByteBuffer.wrap(bytes);
    }

    private ConsumerGroupMetadata generation() {
        return new ConsumerGroupMetadata("group", random.nextInt(1000), "member", Optional.empty());
    }

    private void streamSubscription(int version) throws Exception {
        Map<TaskId, Long> tasks = new HashMap<>();
        for (int i = size(); i > 0; i--) {
            long sum = version >= 7 ? integer() : random.nextBoolean() ? -2 : SubscriptionInfo.UNKNOWN_OFFSET_SUM;
            tasks.put(task(version), sum);
        }
        Map<String, String> tags = new HashMap<>();
        for (int i = version >= 11 ? size() : 0; i > 0; i--) {
            tags.put(text(), text());
        }
        SubscriptionInfo info = new SubscriptionInfo(version, version <= 2 ? -1 : 11,
            new ProcessId(new UUID(random.nextLong(), random.nextLong())), text(), tasks,
            (byte) integer(), (int) integer(), tags);
        ByteBuffer bytes = info.encode();
        bytes.rewind();
        info = SubscriptionInfo.decode(bytes.duplicate());
        ObjectNode read = JSON.createObjectNode();
        read.put("version", info.version());
        read.put("latestSupportedVersion", info.latestSupportedVersion());
        UUID id = info.processId().id();
        read.put("processId", new Uuid(id.getMostSignificantBits(), id.getLeastSignificantBits()).toString());
        read.put("userEndPoint", info.userEndPoint());
        ArrayNode sums = read.putArray("tasks");
        info.taskOffsetSums().forEach((task, sum) -> task(sums.addObject(), task).put("sum", sum));
        read.put("errorCode", info.errorCode());
        read.set("clientTags", JSON.valueToTree(info.clientTags()));
        print("stream-subscription", bytes, read);
    }

    private void streamAssignment(int version) throws Exception {
        List<TaskId> active = new ArrayList<>();
        Map<TaskId, Set<TopicPartition>> standby = new HashMap<>();
        for (int i = size(); i > 0; i--) {
            active.add(task(version));
            if (chance(2)) {
                standby.put(task(version), partitions());
            }
        }
        AssignmentInfo info = version <= 2
            ? new AssignmentInfo(version, -1, active, standby, hosts(), hosts(), 0)
            : new AssignmentInfo(version, 11, active, standby, hosts(), hosts(), random.nextInt(5));
        info.setNextRebalanceTime(1700000000000L + random.nextInt());
        ByteBuffer bytes = info.encode();
        info = AssignmentInfo.decode(bytes.duplicate());
        ObjectNode read = JSON.createObjectNode();
        read.put("version", info.version());
        read.put("commonlySupportedVersion", info.commonlySupportedVersion());
        ArrayNode tasks = read.putArray("activeTasks");
        info.activeTasks().forEach(task -> task(tasks.addObject(), task));
        ArrayNode standbys = read.putArray("standbyTasks");
        info.standbyTasks().forEach((task, partitions) ->
            task(standbys.addObject(), task).set("partitions", topicPartitions(partitions)));
        read.set("hosts", hosts(info.partitionsByHost()));
        read.set("standbyHosts", hosts(info.standbyPartitionByHost()));
        read.put("errorCode", info.errCode());
        read.put("nextRebalanceMs", info.nextRebalanceMs());
        print("stream-assignment", bytes, read);
    }

    private TaskId task(int version) {
        String name = version >= 10 && chance(3) ? "named" + random.nextInt(9) : null;
        return new TaskId(random.nextInt(9), random.nextInt(9), name);
    }

    private static ObjectNode task(ObjectNode node, TaskId task) {
        return node.put("subtopology", task.subtopology()).put("partition", task.partition())
            .put("topology", task.topologyName());
    }

    private Map<HostInfo, Set<TopicPartition>> hosts() {
        Map<HostInfo, Set<TopicPartition>> hosts = new HashMap<>();
        for (int i = random.nextInt(4); i > 0; i--) {
            hosts.put(new HostInfo(text(), random.nextInt(65536)), partitions());
        }
        return hosts;
    }

    private ArrayNode hosts(Map<HostInfo, Set<TopicPartition>> hosts) {
        ArrayNode array = JSON.createArrayNode();
        hosts.forEach((host, partitions) -> array.addObject().put("host", host.host())
            .put("port", host.port()).set("partitions", topicPartitions(partitions)));
        return array;
    }

    private Set<TopicPartition> partitions() {
        Set<TopicPartition> partitions = new HashSet<>();
        for (int i = size(); i > 0; i--) {
            partitions.add(new TopicPartition(chance(4) ? text() : "topic" + random.nextInt(4), random.nextInt(50)));
        }
        return partitions;
    }

    private static ArrayNode topicPartitions(Collection<TopicPartition> partitions) {
        ArrayNode array = JSON.createArrayNode();
        partitions.forEach(tp -> array.addArray().add(tp.topic()).add(tp.partition()));
        return array;
    }

    private void connect(int version) throws Exception {
        ExtendedAssignment assignment = new ExtendedAssignment((short) version, (short) random.nextInt(3),
            text(), text(), integer(), connectors(), tasks(), connectors(), tasks(), (int) integer());
        String url = text();
        long offset = integer();
        ByteBuffer metadata;
        ByteBuffer bytes;
        ObjectNode read = JSON.createObjectNode();
        if (version == 0) {
            metadata = ConnectProtocol.serializeMetadata(new ConnectProtocol.WorkerState(url, offset));
            bytes = ConnectProtocol.serializeAssignment(assignment);
            ConnectProtocol.WorkerState state = ConnectProtocol.deserializeMetadata(metadata.duplicate());
            read.put("url", state.url()).put("offset", state.offset());
            print("connect-metadata", metadata, read);
            print("connect-assignment", bytes, assignment(ConnectProtocol.deserializeAssignment(bytes.duplicate())));
            return;
        }
        ExtendedAssignment allocation = chance(3) ? ExtendedAssignment.empty() : assignment;
        metadata = IncrementalCooperativeConnectProtocol.serializeMetadata(
            new ExtendedWorkerState(url, offset, allocation), version == 2);
        bytes = IncrementalCooperativeConnectProtocol.serializeAssignment(assignment, version == 2);
        ExtendedWorkerState state = IncrementalCooperativeConnectProtocol.deserializeMetadata(metadata.duplicate());
        read.put("url", state.url()).put("offset", state.offset());
        read.set("allocation", state.assignment().version() == -1 || state.assignment() == ExtendedAssignment.empty()
            ? JSON.nullNode() : assignment(state.assignment()));
        print("connect-metadata", metadata, read);
        print("connect-assignment", bytes,
            assignment(IncrementalCooperativeConnectProtocol.deserializeAssignment(bytes.duplicate())));
    }

    private static ObjectNode assignment(ConnectProtocol.Assignment assignment) {
        ObjectNode read = JSON.createObjectNode();
        read.put("error", assignment.error());
        read.put("leader", assignment.leader());
        read.put("leaderUrl", assignment.leaderUrl());
        read.put("offset", assignment.offset());
        read.set("assigned", tasks(assignment.connectors(), assignment.tasks()));
        if (assignment instanceof ExtendedAssignment extended) {
            read.put("version", extended.version());
            read.set("revoked", tasks(extended.revokedConnectors(), extended.revokedTasks()));
            read.put("delay", extended.delay());
        }
        return read;
    }

    private static ArrayNode tasks(Collection<String> connectors, Collection<ConnectorTaskId> tasks) {
        ArrayNode array = JSON.createArrayNode();
        connectors.forEach(name -> array.addArray().add(name).add(-1));
        tasks.forEach(task -> array.addArray().add(task.connector()).add(task.task()));
        return array;
    }

    private List<String> connectors() {
        List<String> names = new ArrayList<>();
        for (int i = size(); i > 0; i--) {
            names.add(text());
        }
        return names;
    }

    private List<ConnectorTaskId> tasks() {
        List<ConnectorTaskId> tasks = new ArrayList<>();
        for (int i = size(); i > 0; i--) {
            tasks.add(new ConnectorTaskId(chance(2) ? "connector" : text(), random.nextInt(20)));
        }
        return tasks;
    }
}
