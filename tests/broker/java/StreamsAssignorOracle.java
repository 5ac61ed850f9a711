package kgroup;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.coordinator.group.streams.assignor.AssignmentMemberSpec;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;
import org.apache.kafka.coordinator.group.streams.assignor.TopologyDescriber;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

/** The coordinator's assignor of streams groups, on groups given as JSON, one a line. */
public final class StreamsAssignorOracle {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine())
            out.println(JSON.writeValueAsString(assign(JSON.readTree(line))));
        out.flush();
    }

    private static ObjectNode assign(JsonNode spec) {
        Map<String, AssignmentMemberSpec> members = new HashMap<>();
        for (JsonNode member : spec.get("members"))
            members.put(member.get("member_id").asText(), new AssignmentMemberSpec(Optional.empty(), Optional.empty(),
                tasks(member.get("active")), tasks(member.get("standby")), Map.of(),
                member.get("process_id").asText(), Map.of(), Map.of(), Map.of()));
        TreeMap<String, Integer> counts = new TreeMap<>();
        spec.get("tasks").fields().forEachRemaining(each -> counts.put(each.getKey(), each.getValue().asInt()));
        Set<String> stateful = new HashSet<>();
        spec.get("stateful").forEach(name -> stateful.add(name.asText()));
        TopologyDescriber topology = new TopologyDescriber() {
            public List<String> subtopologies() {
                return new ArrayList<>(counts.keySet());
            }

            public int maxNumInputPartitions(String subtopology) {
                return counts.get(subtopology);
            }

            public boolean isStateful(String subtopology) {
                return stateful.contains(subtopology);
            }
        };
        Map<String, String> configs = Map.of("num.standby.replicas", spec.get("standby_replicas").asText());
        ObjectNode answer = JSON.createObjectNode();
        Map<String, MemberAssignment> assigned = new StickyTaskAssignor()
            .assign(new GroupSpecImpl(Collections.unmodifiableMap(members), configs), topology).members();
        assigned.forEach((member, own) -> {
            ArrayNode both = answer.putArray(member);
            write(both.addArray(), own.activeTasks());
            write(both.addArray(), own.standbyTasks());
        });
        return answer;
    }

    private static Map<String, Set<Integer>> tasks(JsonNode pairs) {
        Map<String, Set<Integer>> tasks = new HashMap<>();
        for (JsonNode pair : pairs)
            tasks.computeIfAbsent(pair.get(0).asText(), name -> new HashSet<>()).add(pair.get(1).asInt());
        return tasks;
    }

    private static void write(ArrayNode into, Map<String, Set<Integer>> tasks) {
        new TreeMap<>(tasks).forEach((name, numbers) ->
            new TreeSet<>(numbers).forEach(number -> into.addArray().add(name).add(number)));
    }
}
