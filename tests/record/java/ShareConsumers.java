import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;

/**
 * Share consumers, Kafka 4.0.0 and later, each polling in a thread of its own.
 *
 * <p>Verbs: share-join (name, topics, config.*); share-read (names, count): waits until they have
 * read and acknowledged that many records together; share-leave (name).
 */
public final class ShareConsumers implements Session.Actor {
    private final Map<String, Member> members = new ConcurrentHashMap<>();

    @Override
    public Map<String, Session.Verb> verbs() {
        Map<String, Session.Verb> verbs = new HashMap<>();
        verbs.put("share-join", this::join);
        verbs.put("share-read", arguments -> {
            int count = Integer.parseInt(arguments.get("count"));
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(180);
            int read = 0;
            while (read < count) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("read after three minutes: " + read);
                }
                Thread.sleep(100);
                read = 0;
                for (String name : arguments.get("names").split(",")) {
                    read += members.get(name).read.get();
                }
            }
            return String.valueOf(read);
        });
        verbs.put("share-leave", arguments -> {
            Member member = members.remove(arguments.get("name"));
            member.running = false;
            member.join();
            return "";
        });
        return verbs;
    }

    private String join(Map<String, String> arguments) {
        Map<String, Object> config = new HashMap<>();
        String bytes = "org.apache.kafka.common.serialization.ByteArrayDeserializer";
        config.put("key.deserializer", bytes);
        config.put("value.deserializer", bytes);
        config.putAll(Session.config(arguments));
        KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(config);
        consumer.subscribe(Arrays.asList(arguments.get("topics").split(",")));
        Member member = new Member(arguments.get("name"), consumer);
        members.put(member.getName(), member);
        member.start();
        return "";
    }

    private static final class Member extends Thread {
        final AtomicInteger read = new AtomicInteger();
        volatile boolean running = true;
        private final KafkaShareConsumer<byte[], byte[]> consumer;

        Member(String name, KafkaShareConsumer<byte[], byte[]> consumer) {
            super(name);
            this.consumer = consumer;
            setDaemon(true);
        }

        @Override
        public void run() {
            while (running) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
                read.addAndGet(records.count());
                consumer.commitSync();
            }
            consumer.close();
        }
    }
}
