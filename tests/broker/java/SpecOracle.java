package kgroup;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BiConsumer;

/**
 * An assignor of Kafka's on groups given as JSON, one a line, as `kgroup assign --spec` takes them. Prints a
 * JSON object a line: id, and the assignment or the error that the assignor threw; with an argument also the
 * milliseconds that the assignor took.
 */
public abstract class SpecOracle {
    protected static final ObjectMapper JSON = new ObjectMapper();

    /** What the assignor is given, made ready; running it is what is measured. */
    protected interface Assigning {
        Assigned assign() throws Exception;
    }

    /** An assignment, to be written partition by partition into the lists of their members. */
    protected interface Assigned {
        void write(ObjectNode byMember);
    }

    protected abstract Assigning prepare(JsonNode spec) throws Exception;

    protected final void run(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        BufferedWriter out = new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode spec = JSON.readTree(line);
            ObjectNode answer = JSON.createObjectNode();
            answer.set("id", spec.get("id"));
            Assigning assigning = prepare(spec);
            long begin = System.nanoTime();
            try {
                Assigned assigned = assigning.assign();
                long end = System.nanoTime();
                if (args.length > 0)
                    answer.put("ms", (end - begin) / 1e6);
                assigned.write(answer.putObject("assignment"));
            } catch (RuntimeException | AssertionError e) {
                answer.putObject("error").put("type", e.getClass().getSimpleName()).put("message", e.getMessage());
            }
            out.write(JSON.writeValueAsString(answer));
            out.write('\n');
        }
        out.flush();
    }

    protected static List<String> topics(JsonNode member) {
        List<String> topics = new ArrayList<>();
        member.get("topics").forEach(topic -> topics.add(topic.asText()));
        return topics;
    }

    protected static void owned(JsonNode member, BiConsumer<String, Integer> partition) {
        if (member.hasNonNull("owned"))
            member.get("owned").forEach(p -> partition.accept(p.get(0).asText(), p.get(1).asInt()));
    }

    protected static void partitions(JsonNode topics, BiConsumer<String, Integer> partition) {
        topics.fields().forEachRemaining(topic -> {
            for (int p = 0; p < topic.getValue().get("partitions").asInt(); p++)
                partition.accept(topic.getKey(), p);
        });
    }

    protected static void add(ArrayNode partitions, String topic, int partition) {
        partitions.addArray().add(topic).add(partition);
    }
}
