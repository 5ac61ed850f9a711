package org.apache.kafka.clients.consumer;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;

import kgroup.SpecOracle;

import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.clients.consumer.internals.PartitionAssignor;
import org.apache.kafka.clients.consumer.internals.PartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.internals.PartitionAssignor.Subscription;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** As AssignorOracle, with the assignors of kafka-clients 1.1.1. */
public class OldAssignorOracle extends SpecOracle {
    public static void main(String[] args) throws Exception {
        new OldAssignorOracle().run(args);
    }

    @Override
    protected Assigning prepare(JsonNode spec) {
        Map<String, Subscription> subscriptions = subscriptions(spec);
        Cluster cluster = cluster(spec.get("topics"));
        PartitionAssignor assignor = assignor(spec.get("strategy").asText());
        return () -> {
            Map<String, Assignment> assigned = assignor.assign(cluster, subscriptions);
            return byMember -> assigned.forEach((member, assignment) -> {
                ArrayNode partitions = byMember.putArray(member);
                for (TopicPartition partition : assignment.partitions())
                    add(partitions, partition.topic(), partition.partition());
            });
        };
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
        partitions(topics, (topic, p) -> partitions.add(new PartitionInfo(topic, p, node, nodes, nodes)));
        return new Cluster("cluster", Collections.singleton(node), partitions,
            Collections.emptySet(), Collections.emptySet());
    }

    /** As members send them and the leader reads them. */
    private static Map<String, Subscription> subscriptions(JsonNode spec) {
        Map<String, Subscription> subscriptions = new HashMap<>();
        for (JsonNode member : spec.get("members")) {
            List<String> topics = topics(member);
            Subscription sent = new Subscription(topics);
            if (member.hasNonNull("user_data")) {
                byte[] userData = Base64.getDecoder().decode(member.get("user_data").asText());
                sent = new Subscription(topics, ByteBuffer.wrap(userData));
            } else if (spec.get("strategy").asText().equals("sticky") && member.hasNonNull("owned")) {
                List<TopicPartition> owned = new ArrayList<>();
                owned(member, (topic, p) -> owned.add(new TopicPartition(topic, p)));
                ByteBuffer userData = StickyAssignor.serializeTopicPartitionAssignment(owned);
                sent = new Subscription(topics, userData);
            }
            subscriptions.put(member.get("member_id").asText(),
                ConsumerProtocol.deserializeSubscription(ConsumerProtocol.serializeSubscription(sent)));
        }
        return subscriptions;
    }
}
