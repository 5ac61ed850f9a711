package org.apache.kafka.clients.consumer;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;

import kgroup.SpecOracle;

import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.internals.AbstractStickyAssignor.MemberData;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * Kafka's own client-side assignors; see SpecOracle.
 */
public class AssignorOracle extends SpecOracle {
    public static void main(String[] args) throws Exception {
        new AssignorOracle().run(args);
    }

    @Override
    protected Assigning prepare(JsonNode spec) {
        Map<String, Subscription> subscriptions = subscriptions(spec);
        Cluster cluster = cluster(spec.get("topics"));
        ConsumerPartitionAssignor assignor = assignor(spec.get("strategy").asText());
        return () -> {
            Map<String, Assignment> assigned = assignor
                .assign(cluster, new GroupSubscription(subscriptions)).groupAssignment();
            return byMember -> assigned.forEach((member, assignment) -> {
                ArrayNode partitions = byMember.putArray(member);
                for (TopicPartition partition : assignment.partitions())
                    add(partitions, partition.topic(), partition.partition());
            });
        };
    }

    private static ConsumerPartitionAssignor assignor(String strategy) {
        switch (strategy) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            case "sticky": return new StickyAssignor();
            case "cooperative-sticky": return new CooperativeStickyAssignor();
            default: throw new IllegalArgumentException(strategy);
        }
    }

    private static Cluster cluster(JsonNode topics) {
        Map<String, Node> nodes = new LinkedHashMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        topics.fields().forEachRemaining(topic -> {
            JsonNode racks = topic.getValue().get("racks");
            for (int p = 0; p < topic.getValue().get("partitions").asInt(); p++) {
                List<Node> replicas = new ArrayList<>();
                if (racks != null && !racks.isNull())
                    for (JsonNode rack : racks.get(p))
                        replicas.add(nodes.computeIfAbsent(rack.asText(),
                            r -> new Node(nodes.size(), "localhost", 9092, r)));
                Node[] array = replicas.toArray(new Node[0]);
                partitions.add(new PartitionInfo(topic.getKey(), p, array.length > 0 ? array[0] : null, array, array));
            }
        });
        return new Cluster("cluster", nodes.values(), partitions, Collections.emptySet(), Collections.emptySet());
    }

    /** As members send them and the leader reads them. */
    private static Map<String, Subscription> subscriptions(JsonNode spec) {
        Map<String, Subscription> subscriptions = new HashMap<>();
        String strategy = spec.get("strategy").asText();
        for (JsonNode member : spec.get("members")) {
            List<String> topics = topics(member);
            List<TopicPartition> owned = new ArrayList<>();
            boolean hasOwned = member.hasNonNull("owned");
            owned(member, (topic, p) -> owned.add(new TopicPartition(topic, p)));
            int generation = member.hasNonNull("generation") ? member.get("generation").asInt() : -1;
            ByteBuffer userData = null;
            if (member.hasNonNull("user_data"))
                userData = ByteBuffer.wrap(Base64.getDecoder().decode(member.get("user_data").asText()));
            else if (strategy.equals("sticky") && (hasOwned || member.hasNonNull("generation")))
                userData = StickyAssignor.serializeTopicPartitionAssignment(
                    new MemberData(owned, Optional.of(generation)));
            else if (strategy.equals("cooperative-sticky")) {
                CooperativeStickyAssignor assignor = new CooperativeStickyAssignor();
                assignor.onAssignment(new Assignment(owned),
                    new ConsumerGroupMetadata("group", generation, "", Optional.empty()));
                userData = assignor.subscriptionUserData(new HashSet<>(topics));
            }
            int sentGeneration = member.hasNonNull("subscription_generation")
                ? member.get("subscription_generation").asInt() : generation;
            Subscription sent = new Subscription(topics, userData,
                strategy.equals("cooperative-sticky") ? owned : List.of(), sentGeneration,
                member.hasNonNull("rack") ? Optional.of(member.get("rack").asText()) : Optional.empty());
            short version = member.hasNonNull("protocol_version") ? (short) member.get("protocol_version").asInt() : 3;
            Subscription read = ConsumerProtocol.deserializeSubscription(
                ConsumerProtocol.serializeSubscription(sent, version));
            if (member.hasNonNull("instance_id"))
                read.setGroupInstanceId(Optional.of(member.get("instance_id").asText()));
            subscriptions.put(member.get("member_id").asText(), read);
        }
        return subscriptions;
    }
}
