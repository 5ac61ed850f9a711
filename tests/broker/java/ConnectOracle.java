package org.apache.kafka.connect.runtime.distributed;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.clients.consumer.internals.AbstractCoordinator;
import org.apache.kafka.common.message.JoinGroupRequestData.JoinGroupRequestProtocol;
import org.apache.kafka.common.message.JoinGroupResponseData.JoinGroupResponseMember;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.storage.ClusterConfigState;
import org.apache.kafka.connect.storage.ConfigBackingStore;
import org.apache.kafka.connect.util.ConnectorTaskId;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;

/**
 * Histories of Connect clusters, one a line, played by Kafka's own WorkerCoordinator: it writes the metadata,
 * assigns if its worker leads, and takes over the assignment. Each round has the clock, connectors with their
 * numbers of tasks, the workers in the order of the JoinGroup response, the first of `leaders` that is among
 * them leads, and `late` workers do not get their assignment. Prints what each worker runs, in the order of its next
 * message, what it is told to start and to stop, and the delay.
 */
public final class ConnectOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static long now;
    private static ClusterConfigState configured;

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine())
            out.println(JSON.writeValueAsString(play(JSON.readTree(line))));
        out.flush();
    }

    private static ArrayNode play(JsonNode history) throws Exception {
        ArrayNode answer = JSON.createArrayNode();
        String protocol = history.get("protocol").asText();
        Map<String, WorkerCoordinator> workers = new HashMap<>();
        int generation = 0;
        for (JsonNode round : history.get("rounds")) {
            generation++;
            now = round.get("now_ms").asLong();
            configured = configuration(generation, round.get("connectors"));
            List<JoinGroupResponseMember> members = new ArrayList<>();
            for (JsonNode id : round.get("workers")) {
                String worker = id.asText();
                if (!workers.containsKey(worker))
                    workers.put(worker, worker(protocol, worker, history.get("max_delay_ms").asInt()));
                set(AbstractCoordinator.class, workers.get(worker), "generation", generation(generation, worker));
                members.add(new JoinGroupResponseMember().setMemberId(worker)
                    .setMetadata(metadata(workers.get(worker), protocol)));
            }
            String leader = round.get("leader").asText();
            Map<String, ByteBuffer> assigned =
                workers.get(leader).onLeaderElected(leader, protocol, members, false);
            ObjectNode told = answer.addObject();
            for (JsonNode id : round.get("workers")) {
                WorkerCoordinator worker = workers.get(id.asText());
                ExtendedAssignment own = IncrementalCooperativeConnectProtocol.deserializeAssignment(
                    assigned.get(id.asText()).duplicate());
                boolean late = false;
                for (JsonNode other : round.get("late"))
                    late |= other.equals(id);
                if (!late)
                    worker.onJoinComplete(generation, id.asText(), protocol, assigned.get(id.asText()));
                ObjectNode row = told.putObject(id.asText());
                row.put("delay_ms", own.delay());
                list(row.putArray("started"), own.connectors(), own.tasks());
                list(row.putArray("revoked"), own.revokedConnectors(), own.revokedTasks());
                ExtendedAssignment sent = (ExtendedAssignment) get(worker, "assignmentSnapshot");
                if (!protocol.equals("default"))
                    sent = IncrementalCooperativeConnectProtocol.deserializeMetadata(
                        ByteBuffer.wrap(metadata(worker, protocol))).assignment();
                if (sent == null)
                    sent = ExtendedAssignment.empty();
                list(row.putArray("runs"), sent.connectors(), sent.tasks());
            }
        }
        return answer;
    }

    private static void list(ArrayNode into, Iterable<String> connectors, Iterable<ConnectorTaskId> tasks) {
        for (String connector : connectors)
            into.addArray().add(connector).add(-1);
        for (ConnectorTaskId task : tasks)
            into.addArray().add(task.connector()).add(task.task());
    }

    private static byte[] metadata(WorkerCoordinator worker, String protocol) {
        for (JoinGroupRequestProtocol each : worker.metadata())
            if (each.name().equals(protocol))
                return each.metadata();
        throw new IllegalStateException(protocol);
    }

    /** A coordinator without a network: made without its constructor. */
    private static WorkerCoordinator worker(String protocol, String id, int maxDelay) throws Exception {
        Field field = Class.forName("sun.misc.Unsafe").getDeclaredField("theUnsafe");
        field.setAccessible(true);
        Object unsafe = field.get(null);
        WorkerCoordinator worker = (WorkerCoordinator) unsafe.getClass()
            .getMethod("allocateInstance", Class.class).invoke(unsafe, WorkerCoordinator.class);
        LogContext logs = new LogContext();
        set("log", worker, logs.logger(WorkerCoordinator.class));
        set("restUrl", worker, "http://" + id + "/");
        set("configStorage", worker, proxy(ConfigBackingStore.class));
        set("listener", worker, proxy(WorkerRebalanceListener.class));
        ConnectProtocolCompatibility compatibility = ConnectProtocolCompatibility.fromProtocol(protocol);
        set("protocolCompatibility", worker, compatibility);
        set("currentConnectProtocol", worker, compatibility);
        set("lastCompletedGenerationId", worker, -1);
        set("eagerAssignor", worker, new EagerAssignor(logs));
        set("incrementalAssignor", worker,
            new IncrementalCooperativeAssignor(logs, (Time) proxy(Time.class), maxDelay));
        return worker;
    }

    private static Object proxy(Class<?> type) {
        return Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (self, method, args) -> {
            if (method.getName().equals("milliseconds"))
                return now;
            return method.getName().equals("snapshot") ? configured : null;
        });
    }

    private static ClusterConfigState configuration(long offset, JsonNode connectors) throws Exception {
        Map<String, Integer> counts = new HashMap<>();
        Map<String, Map<String, String>> configs = new HashMap<>();
        connectors.fields().forEachRemaining(each -> {
            counts.put(each.getKey(), each.getValue().asInt());
            configs.put(each.getKey(), Map.of());
        });
        Constructor<?> shortest = null;
        for (Constructor<?> each : ClusterConfigState.class.getConstructors())
            if (shortest == null || each.getParameterCount() < shortest.getParameterCount())
                shortest = each;
        Object[] values = new Object[shortest.getParameterCount()];
        for (int at = 0; at < values.length; at++) {
            Class<?> type = shortest.getParameterTypes()[at];
            values[at] = type == Map.class ? new HashMap<>() : type == long.class ? (Object) offset : null;
            if (java.util.Set.class == type)
                values[at] = new HashSet<>();
        }
        values[2] = counts;
        values[3] = configs;
        return (ClusterConfigState) shortest.newInstance(values);
    }

    private static Object generation(int number, String member) throws Exception {
        Class<?> type = Class.forName(AbstractCoordinator.class.getName() + "$Generation");
        Constructor<?> constructor = type.getDeclaredConstructor(int.class, String.class, String.class);
        constructor.setAccessible(true);
        return constructor.newInstance(number, member, "sessioned");
    }

    private static void set(String name, Object worker, Object value) throws Exception {
        set(WorkerCoordinator.class, worker, name, value);
    }

    private static void set(Class<?> type, Object worker, String name, Object value) throws Exception {
        Field field = type.getDeclaredField(name);
        field.setAccessible(true);
        field.set(worker, value);
    }

    private static Object get(Object worker, String name) throws Exception {
        Field field = WorkerCoordinator.class.getDeclaredField(name);
        field.setAccessible(true);
        return field.get(worker);
    }
}
