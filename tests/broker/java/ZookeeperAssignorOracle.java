package kgroup;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import kafka.common.TopicAndPartition;
import kafka.consumer.AssignmentContext;
import kafka.consumer.ConsumerThreadId;
import kafka.consumer.PartitionAssignor;
import kafka.consumer.PartitionAssignor$;

import org.I0Itec.zkclient.InMemoryConnection;
import org.I0Itec.zkclient.ZkClient;
import org.I0Itec.zkclient.exception.ZkNoNodeException;
import org.apache.zookeeper.data.Stat;

import scala.collection.JavaConversions;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

/**
 * The assignors of Kafka 0.8's consumer, which read what is in ZooKeeper: protocol "zookeeper". Every consumer
 * of the group assigns for itself. An assignment is that of the threads, by `consumer-thread`, each sorted;
 * an error is that of the first consumer that fails, if all fail likewise. See SpecOracle.
 */
public class ZookeeperAssignorOracle extends SpecOracle {
    private static final String IDS = "/consumers/g/ids";

    private final Nodes nodes = new Nodes();

    public static void main(String[] args) throws Exception {
        new ZookeeperAssignorOracle().run(args);
        System.exit(0); // the ZooKeeper client has a thread that stays
    }

    @Override
    protected Assigning prepare(JsonNode spec) throws Exception {
        nodes.read(spec);
        List<String> consumers = nodes.consumers;
        String strategy = spec.get("strategy").asText();
        return () -> {
            Map<String, Map<String, Set<Integer>>> threads = new TreeMap<>();
            List<Throwable> failures = new ArrayList<>();
            for (String consumer : consumers) {
                PartitionAssignor assignor = PartitionAssignor$.MODULE$.createInstance(strategy);
                try {
                    Map<TopicAndPartition, ConsumerThreadId> own = JavaConversions.mapAsJavaMap(
                        assignor.assign(new AssignmentContext("g", consumer, true, nodes)));
                    own.forEach((partition, thread) -> threads
                        .computeIfAbsent(thread.toString(), t -> new TreeMap<>())
                        .computeIfAbsent(partition.topic(), t -> new TreeSet<>())
                        .add(partition.partition()));
                } catch (RuntimeException | AssertionError e) {
                    failures.add(e);
                }
            }
            for (Throwable failure : failures)
                if (failures.size() < consumers.size()
                        || !failure.toString().equals(failures.get(0).toString()))
                    throw new IllegalStateException("consumers differ in how they fail", failure);
            if (!failures.isEmpty() && failures.get(0) instanceof AssertionError)
                throw (AssertionError) failures.get(0);
            if (!failures.isEmpty())
                throw (RuntimeException) failures.get(0);
            return byThread -> threads.forEach((thread, topics) -> {
                ArrayNode partitions = byThread.putArray(thread);
                topics.forEach((topic, numbers) -> numbers.forEach(p -> add(partitions, topic, p)));
            });
        };
    }

    /**
     * What the group has in ZooKeeper; children in the order of the group's JSON. The nodes hold only what the
     * assignors read, as Scala's JSON parser is slow.
     */
    private static final class Nodes extends ZkClient {
        private final Map<String, String> data = new HashMap<>();
        private List<String> consumers = List.of();

        Nodes() {
            super(new InMemoryConnection());
        }

        void read(JsonNode spec) throws Exception {
            data.clear();
            consumers = new ArrayList<>();
            for (JsonNode member : spec.get("members")) {
                String consumer = member.get("member_id").asText();
                ObjectNode registration = JSON.createObjectNode();
                registration.set("subscription", member.get("streams"));
                registration.put("pattern", "static");
                consumers.add(consumer);
                data.put(IDS + "/" + consumer, JSON.writeValueAsString(registration));
            }
            spec.get("topics").fields().forEachRemaining(topic -> {
                ObjectNode node = JSON.createObjectNode();
                ObjectNode partitions = node.putObject("partitions");
                for (int p = 0; p < topic.getValue().get("partitions").asInt(); p++)
                    partitions.putArray(Integer.toString(p));
                data.put("/brokers/topics/" + topic.getKey(), node.toString());
            });
        }

        @Override
        public List<String> getChildren(String path) {
            if (!path.equals(IDS))
                throw new ZkNoNodeException(path);
            return consumers;
        }

        @Override
        @SuppressWarnings("unchecked")
        public <T> T readData(String path, Stat stat) {
            String found = data.get(path);
            if (found == null)
                throw new ZkNoNodeException(path);
            return (T) found;
        }
    }
}
