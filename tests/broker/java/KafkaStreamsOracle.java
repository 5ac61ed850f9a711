package org.apache.kafka.streams.processor.internals;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.AssignmentConfigs;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.internals.StreamsPartitionAssignor.ClientMetadata;
import org.apache.kafka.streams.processor.internals.assignment.AssignmentInfo;
import org.apache.kafka.streams.processor.internals.assignment.AssignorConfiguration.AssignmentListener;
import org.apache.kafka.streams.processor.internals.assignment.ClientState;
import org.apache.kafka.streams.processor.internals.assignment.HighAvailabilityTaskAssignor;
import org.apache.kafka.streams.processor.internals.assignment.LegacyStickyTaskAssignor;
import org.apache.kafka.streams.processor.internals.assignment.LegacyTaskAssignor;
import org.apache.kafka.streams.processor.internals.assignment.RackAwareTaskAssignor;
import org.slf4j.helpers.NOPLogger;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;

/**
 * The assignor of Kafka Streams on the classic protocol, on groups given as JSON, one a line.
 *
 * <p>It runs what StreamsPartitionAssignor.assign runs once the topology and the end offsets are
 * known: each client's state, a task assignor, and computeNewAssignment.
 */
public final class KafkaStreamsOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long PROBING_MS = 1_000_000L;

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine())
            out.println(JSON.writeValueAsString(assign(JSON.readTree(line))));
        out.flush();
    }

    private static ObjectNode assign(JsonNode spec) throws Exception {
        Map<TaskId, Set<TopicPartition>> partitions = new HashMap<>();
        Map<TopicPartition, TaskId> taskOf = new HashMap<>();
        Map<TaskId, Long> ends = new HashMap<>();
        for (JsonNode each : spec.get("tasks")) {
            TaskId task = new TaskId(each.get(0).asInt(), each.get(1).asInt());
            Set<TopicPartition> own = partitions(each.get(2));
            partitions.put(task, own);
            own.forEach(partition -> taskOf.put(partition, task));
            if (!each.get(3).isNull())
                ends.put(task, each.get(3).asLong());
        }
        Map<String, JsonNode> threads = new HashMap<>();
        spec.get("threads").forEach(thread -> threads.put(thread.get("member_id").asText(), thread));
        Map<ProcessId, ClientMetadata> clients = new HashMap<>();
        Set<TopicPartition> allOwned = new HashSet<>();
        for (Map.Entry<String, JsonNode> thread : threads.entrySet()) {
            ProcessId id = new ProcessId(UUID.fromString(thread.getValue().get("process_id").asText()));
            ClientMetadata client = clients.get(id);
            if (client == null) {
                client = new ClientMetadata(id, null, Collections.emptyMap(), Optional.empty());
                clients.put(id, client);
            }
            List<TopicPartition> owned = new ArrayList<>(partitions(thread.getValue().get("owned")));
            client.addConsumer(thread.getKey(), owned);
            allOwned.addAll(owned);
            Map<TaskId, Long> sums = new HashMap<>();
            thread.getValue().get("offset_sums").forEach(sum ->
                sums.put(new TaskId(sum.get(0).asInt(), sum.get(1).asInt()), sum.get(2).asLong()));
            client.addPreviousTasksAndOffsetSums(thread.getKey(), sums);
        }
        Map<ProcessId, ClientState> states = new HashMap<>();
        clients.forEach((id, client) -> {
            client.state().initializePrevTasks(taskOf, false);
            client.state().computeTaskLags(id, ends);
            states.put(id, client.state());
        });
        AssignmentConfigs configs = new AssignmentConfigs(spec.get("acceptable_lag").asLong(),
            spec.get("warmup_replicas").asInt(), spec.get("standby_replicas").asInt(), 60_000L, Collections.emptyList());
        RackAwareTaskAssignor racks = new RackAwareTaskAssignor(Cluster.empty(), partitions, Collections.emptyMap(),
            Collections.emptyMap(), Collections.emptyMap(), null, configs, Time.SYSTEM);
        LegacyTaskAssignor assignor = spec.get("is_sticky").asBoolean()
            ? new LegacyStickyTaskAssignor() : new HighAvailabilityTaskAssignor();
        Set<TaskId> stateful = new HashSet<>(); // not by its constructor, which makes a larger table
        stateful.addAll(ends.keySet());
        boolean isProbing = assignor.assign(states, partitions.keySet(), stateful, racks, configs);
        if (isProbing)
            clients.get(new ProcessId(UUID.fromString(spec.get("leader_process").asText())))
                .state().setFollowupRebalanceDeadline(Instant.ofEpochMilli(PROBING_MS));
        ObjectNode answer = JSON.createObjectNode();
        answer.put("is_probing", isProbing);
        ObjectNode told = answer.putObject("threads");
        compute(clients, partitions, allOwned, stateful).forEach((member, assignment) -> {
            AssignmentInfo info = AssignmentInfo.decode(assignment.userData());
            ObjectNode own = told.putObject(member);
            write(own.putArray("active"), new LinkedHashSet<>(info.activeTasks()));
            write(own.putArray("standby"), new TreeSet<>(info.standbyTasks().keySet()));
            ArrayNode owned = own.putArray("partitions");
            assignment.partitions().forEach(each -> owned.addArray().add(each.topic()).add(each.partition()));
            long next = info.nextRebalanceMs();
            own.put("next", next == 0 ? "at once" : next == PROBING_MS ? "probing" : "none");
        });
        return answer;
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Assignment> compute(Map<ProcessId, ClientMetadata> clients,
                                                   Map<TaskId, Set<TopicPartition>> partitions,
                                                   Set<TopicPartition> allOwned,
                                                   Set<TaskId> stateful) throws Exception {
        StreamsPartitionAssignor assignor = new StreamsPartitionAssignor();
        set(assignor, "log", NOPLogger.NOP_LOGGER);
        set(assignor, "assignmentListener", (AssignmentListener) stable -> { });
        for (Method method : StreamsPartitionAssignor.class.getDeclaredMethods())
            if (method.getName().equals("computeNewAssignment")) {
                method.setAccessible(true);
                return (Map<String, Assignment>) method.invoke(assignor, stateful, clients, partitions,
                    new HashMap<>(), new HashMap<>(), allOwned, 11, 11, false);
            }
        throw new IllegalStateException("no computeNewAssignment");
    }

    private static void set(StreamsPartitionAssignor assignor, String name, Object value) throws Exception {
        Field field = StreamsPartitionAssignor.class.getDeclaredField(name);
        field.setAccessible(true);
        field.set(assignor, value);
    }

    private static Set<TopicPartition> partitions(JsonNode pairs) {
        Set<TopicPartition> partitions = new LinkedHashSet<>();
        pairs.forEach(pair -> partitions.add(new TopicPartition(pair.get(0).asText(), pair.get(1).asInt())));
        return partitions;
    }

    private static void write(ArrayNode into, Set<TaskId> tasks) {
        tasks.forEach(task -> into.addArray().add(task.subtopology()).add(task.partition()));
    }
}
