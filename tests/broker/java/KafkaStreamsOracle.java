package org.apache.kafka.streams.processor.internals;

import static org.apache.kafka.streams.processor.internals.assignment.StreamsAssignmentProtocolVersions.LATEST_SUPPORTED_VERSION;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.internals.assignment.AssignmentInfo;
import org.apache.kafka.streams.processor.internals.assignment.AssignorConfiguration.AssignmentListener;
import org.apache.kafka.streams.processor.internals.assignment.ClientState;
import org.slf4j.helpers.NOPLogger;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.invoke.MethodType;
import java.lang.reflect.Constructor;
import java.lang.reflect.Executable;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
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
 * known: each client's state, a task assignor, and computeNewAssignment. These are called by
 * reflection, since their parameters differ between 2.6 and 4.3. Whether a probing rebalance
 * follows is the task assignor's answer.
 */
public final class KafkaStreamsOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String INTERNALS = "org.apache.kafka.streams.processor.internals.";

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
        Map<Object, Object> clients = new HashMap<>();
        Set<TopicPartition> allOwned = new HashSet<>();
        for (Map.Entry<String, JsonNode> thread : threads.entrySet()) {
            Object id = processId(UUID.fromString(thread.getValue().get("process_id").asText()));
            Object client = clients.get(id);
            if (client == null) {
                client = make(INTERNALS + "StreamsPartitionAssignor$ClientMetadata",
                    id, null, Collections.emptyMap(), Optional.empty());
                clients.put(id, client);
            }
            List<TopicPartition> owned = new ArrayList<>(partitions(thread.getValue().get("owned")));
            call(client, "addConsumer", thread.getKey(), owned);
            allOwned.addAll(owned);
            Map<TaskId, Long> sums = new HashMap<>();
            thread.getValue().get("offset_sums").forEach(sum ->
                sums.put(new TaskId(sum.get(0).asInt(), sum.get(1).asInt()), sum.get(2).asLong()));
            call(client, "addPreviousTasksAndOffsetSums", thread.getKey(), sums);
        }
        Map<Object, ClientState> states = new HashMap<>();
        for (Map.Entry<Object, Object> client : clients.entrySet()) {
            ClientState state = (ClientState) field(client.getValue(), "state").get(client.getValue());
            call(state, "initializePrevTasks", taskOf, false);
            call(state, "computeTaskLags", client.getKey(), ends);
            states.put(client.getKey(), state);
        }
        Object configs = configs(spec);
        Set<TaskId> stateful = new HashSet<>(); // not by its constructor, which makes a larger table
        stateful.addAll(ends.keySet());
        boolean isProbing = (boolean) call(assignor(spec.get("is_sticky").asBoolean()), "assign",
            states, partitions.keySet(), stateful, racks(partitions, configs), configs);
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
            own.put("next", next == 0 ? "at once" : "none");
        });
        return answer;
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Assignment> compute(Map<Object, Object> clients,
                                                   Map<TaskId, Set<TopicPartition>> partitions,
                                                   Set<TopicPartition> allOwned,
                                                   Set<TaskId> stateful) throws Exception {
        StreamsPartitionAssignor assignor = new StreamsPartitionAssignor();
        field(assignor, "log").set(assignor, NOPLogger.NOP_LOGGER);
        field(assignor, "assignmentListener").set(assignor, (AssignmentListener) stable -> { });
        return (Map<String, Assignment>) call(assignor, "computeNewAssignment", stateful, clients, partitions,
            new HashMap<>(), new HashMap<>(), allOwned, LATEST_SUPPORTED_VERSION, LATEST_SUPPORTED_VERSION,
            false, false);
    }

    private static Object processId(UUID id) throws Exception {
        String name = "org.apache.kafka.streams.processor.assignment.ProcessId"; // since 3.8
        return exists(name) ? make(name, id) : id;
    }

    private static Object configs(JsonNode spec) throws Exception {
        String since38 = "org.apache.kafka.streams.processor.assignment.AssignmentConfigs";
        String name = exists(since38) ? since38 : INTERNALS + "assignment.AssignorConfiguration$AssignmentConfigs";
        return make(name, spec.get("acceptable_lag").asLong(), spec.get("warmup_replicas").asInt(),
            spec.get("standby_replicas").asInt(), 60_000L, Collections.emptyList());
    }

    private static Object assignor(boolean isSticky) throws Exception {
        String since38 = INTERNALS + "assignment.LegacyStickyTaskAssignor";
        String sticky = exists(since38) ? since38 : INTERNALS + "assignment.StickyTaskAssignor";
        return make(isSticky ? sticky : INTERNALS + "assignment.HighAvailabilityTaskAssignor");
    }

    private static Object racks(Map<TaskId, Set<TopicPartition>> partitions, Object configs) throws Exception {
        String since35 = INTERNALS + "assignment.RackAwareTaskAssignor";
        return exists(since35) ? make(since35, Cluster.empty(), partitions, Collections.emptyMap(),
            Collections.emptyMap(), Collections.emptyMap(), null, configs, Time.SYSTEM) : "none";
    }

    private static boolean exists(String name) {
        try {
            Class.forName(name);
            return true;
        } catch (ClassNotFoundException missing) {
            return false;
        }
    }

    /** Calls a constructor with those of the values, in this order, that it takes. */
    private static Object make(String name, Object... values) throws Exception {
        for (Constructor<?> each : Class.forName(name).getDeclaredConstructors()) {
            Object[] arguments = arguments(each, values);
            if (arguments != null) {
                each.setAccessible(true);
                return each.newInstance(arguments);
            }
        }
        throw new IllegalStateException("no constructor of " + name);
    }

    private static Object call(Object target, String name, Object... values) throws Exception {
        for (Method each : target.getClass().getDeclaredMethods()) {
            Object[] arguments = each.getName().equals(name) && !each.isBridge() ? arguments(each, values) : null;
            if (arguments != null) {
                each.setAccessible(true);
                return each.invoke(target, arguments);
            }
        }
        throw new IllegalStateException("no method " + name);
    }

    /** Returns a value for each parameter, of which only those of other types are left out. */
    private static Object[] arguments(Executable function, Object... values) {
        Class<?>[] types = function.getParameterTypes();
        Object[] arguments = new Object[types.length];
        int at = 0;
        for (Object value : values) {
            if (at == types.length)
                break;
            Class<?> type = MethodType.methodType(types[at]).wrap().returnType();
            if (value == null || type.isInstance(value))
                arguments[at++] = value;
        }
        return at == types.length ? arguments : null;
    }

    private static Field field(Object target, String name) throws Exception {
        Field field = target.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field;
    }

    private static Set<TopicPartition> partitions(JsonNode pairs) {
        Set<TopicPartition> partitions = new LinkedHashSet<>();
        pairs.forEach(pair -> partitions.add(new TopicPartition(pair.get(0).asText(), pair.get(1).asInt())));
        return partitions;
    }

    private static void write(ArrayNode into, Set<TaskId> tasks) {
        for (TaskId task : tasks) {
            String[] parts = task.toString().split("_");
            into.addArray().add(Integer.parseInt(parts[0])).add(Integer.parseInt(parts[1]));
        }
    }
}
