import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import kafka.consumer.ConsumerConfig;
import kafka.consumer.ConsumerIterator;
import kafka.consumer.KafkaStream;
import kafka.javaapi.consumer.ConsumerConnector;

/**
 * The high-level consumer of Kafka 0.8, which coordinates through ZooKeeper.
 *
 * <p>Verbs: old-join (name, topic, threads, config.*); old-read (names, count): waits until they
 * have read that many records together; old-commit (name): commits its position of every partition;
 * old-leave (name).
 */
public final class OldConsumers implements Session.Actor {
    private final Map<String, ConsumerConnector> connectors = new ConcurrentHashMap<>();
    private final Map<String, AtomicInteger> read = new ConcurrentHashMap<>();

    @Override
    public Map<String, Session.Verb> verbs() {
        Map<String, Session.Verb> verbs = new HashMap<>();
        verbs.put("old-join", this::join);
        verbs.put("old-read", arguments -> {
            int expected = Integer.parseInt(arguments.get("count"));
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
            int count = 0;
            while (count < expected) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("read after a minute: " + count);
                }
                Thread.sleep(100);
                count = 0;
                for (String name : arguments.get("names").split(",")) {
                    count += read.get(name).get();
                }
            }
            return String.valueOf(count);
        });
        verbs.put("old-commit", arguments -> {
            connectors.get(arguments.get("name")).commitOffsets();
            return "";
        });
        verbs.put("old-leave", arguments -> {
            connectors.remove(arguments.get("name")).shutdown();
            return "";
        });
        return verbs;
    }

    private String join(Map<String, String> arguments) {
        Properties config = new Properties();
        config.putAll(Session.config(arguments));
        String name = arguments.get("name");
        ConsumerConnector connector =
            kafka.consumer.Consumer.createJavaConsumerConnector(new ConsumerConfig(config));
        connectors.put(name, connector);
        AtomicInteger count = new AtomicInteger();
        read.put(name, count);
        int threads = Integer.parseInt(arguments.get("threads"));
        List<KafkaStream<byte[], byte[]>> streams = new ArrayList<>(connector
            .createMessageStreams(Collections.singletonMap(arguments.get("topic"), threads))
            .get(arguments.get("topic")));
        for (KafkaStream<byte[], byte[]> stream : streams) {
            Thread reader = new Thread(() -> {
                ConsumerIterator<byte[], byte[]> messages = stream.iterator();
                while (messages.hasNext()) {
                    messages.next();
                    count.incrementAndGet();
                }
            });
            reader.setDaemon(true);
            reader.start();
        }
        return "";
    }
}
