package org.apache.kafka.clients.consumer;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;

import kgroup.SpecOracle;

import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
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
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * Assignors of kafka-clients 2.4 to 3.7; see SpecOracle. A member's `bytes` are its subscription, in base64,
 * because the classes that write one differ between these versions.
 */
public class ClientAssignorOracle extends SpecOracle {
    public static void main(String[] args) throws Exception {
        new ClientAssignorOracle().run(args);
    }

    @Override
    protected Assigning prepare(JsonNode spec) {
        Map<String, Subscription> subscriptions = new HashMap<>();
        for (JsonNode member : spec.get("members")) {
            byte[] bytes = Base64.getDecoder().decode(member.get("bytes").asText());
            Subscription read = ConsumerProtocol.deserializeSubscription(ByteBuffer.wrap(bytes));
            if (member.hasNonNull("instance_id"))
                read.setGroupInstanceId(Optional.of(member.get("instance_id").asText()));
            subscriptions.put(member.get("member_id").asText(), read);
        }
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
}
