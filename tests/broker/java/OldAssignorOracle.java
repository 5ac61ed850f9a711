package org.apache.kafka.clients.consumer;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.clients.consumer.internals.PartitionAssignor;
import org.apache.kafka.clients.consumer.internals.PartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.internals.PartitionAssignor.Subscription;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** As AssignorOracle, with the assignors of kafka-clients 1.1.1. */
public class OldAssignorOracle {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        BufferedWriter out = new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode spec = JSON.readTree(line);
            ObjectNode answer = JSON.createObjectNode();
            answer.set("id", spec.get("id"));
            Map<String, Subscription> subscriptions = subscriptions(spec);
            Cluster cluster = cluster(spec.get("topics"));
            PartitionAssignor assignor = assignor(spec.get("strategy").asText());
            try {
                Map<String, Assignment> assigned = assignor.assign(cluster, subscriptions);
                ObjectNode byMember = answer.putObject("assignment");
                assigned.forEach((member, assignment) -> {
                    ArrayNode partitions = byMember.putArray(member);
                    for (TopicPartition partition : assignment.partitions())
                        partitions.addArray().add(partition.topic()).add(partition.partition());
                });
            } catch (RuntimeException e) {
                answer.putObject("error").put("type", e.getClass().getSimpleName()).put("message", e.getMessage());
            }
            out.write(JSON.writeValueAsString(answer));
            out.write('\n');
        }
        out.flush();
    }

    private static PartitionAssignor assignor(String strategy) {
        switch (strategy) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            case "sticky": return new StickyAssignor();
            default: throw new IllegalArgumentException(strategy);
        }
    }

    private static Cluster cluster(JsonNode topics) {
        Node node = new Node(0, "localhost", 9092);
        Node[] nodes = {node};
        List<PartitionInfo> partitions = new ArrayList<>();
        topics.fields().forEachRemaining(topic -> {
            for (int p = 0; p < topic.getValue().get("partitions").asInt(); p++)
                partitions.add(new PartitionInfo(topic.getKey(), p, node, nodes, nodes));
        });
        return new Cluster("cluster", Collections.singleton(node), partitions,
            Collections.emptySet(), Collections.emptySet());
    }

    /** As members send them and the leader reads them. */
    private static Map<String, Subscription> subscriptions(JsonNode spec) {
        Map<String, Subscription> subscriptions = new HashMap<>();
        for (JsonNode member : spec.get("members")) {
            List<String> topics = new ArrayList<>();
            member.get("topics").forEach(topic -> topics.add(topic.asText()));
            Subscription sent = new Subscription(topics);
            if (spec.get("strategy").asText().equals("sticky") && member.hasNonNull("owned")) {
                List<TopicPartition> owned = new ArrayList<>();
                member.get("owned").forEach(p -> owned.add(new TopicPartition(p.get(0).asText(), p.get(1).asInt())));
                ByteBuffer userData = StickyAssignor.serializeTopicPartitionAssignment(owned);
                sent = new Subscription(topics, userData);
            }
            subscriptions.put(member.get("member_id").asText(),
                ConsumerProtocol.deserializeSubscription(ConsumerProtocol.serializeSubscription(sent)));
        }
        return subscriptions;
    }
}
