import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * Verbs produce (topic, partition, count, config.*): small records into one partition; flow (topic,
 * partitions, rate, first, config.*): so many a second into each partition, from the first one on, in
 * a thread of its own, until flow-stop (topic).
 */
public final class Producers implements Session.Actor {
    private static final Map<String, Thread> FLOWS = new java.util.concurrent.ConcurrentHashMap<>();

    @Override
    public Map<String, Session.Verb> verbs() {
        Map<String, Session.Verb> verbs = new HashMap<>();
        verbs.put("produce", Producers::produce);
        verbs.put("flow", Producers::flow);
        verbs.put("flow-stop", arguments -> {
            Thread flow = FLOWS.remove(arguments.get("topic"));
            flow.interrupt();
            flow.join();
            return "";
        });
        return verbs;
    }

    private static String produce(Map<String, String> arguments) throws Exception {
        Map<String, Object> config = new HashMap<>();
        String bytes = "org.apache.kafka.common.serialization.ByteArraySerializer";
        config.put("key.serializer", bytes);
        config.put("value.serializer", bytes);
        config.put("linger.ms", "200");
        config.putAll(Session.config(arguments));
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config)) {
            java.util.List<java.util.concurrent.Future<?>> sent = new java.util.ArrayList<>();
            for (int i = 0; i < Integer.parseInt(arguments.get("count")); i++) {
                byte[] value = ("#" + i).getBytes("UTF-8");
                sent.add(producer.send(new ProducerRecord<>(arguments.get("topic"),
                    Integer.parseInt(arguments.get("partition")), null, value)));
            }
            for (java.util.concurrent.Future<?> future : sent) {
                future.get(180, TimeUnit.SECONDS);
            }
        }
        return "";
    }

    private static String flow(Map<String, String> arguments) {
        Map<String, Object> config = new HashMap<>();
        String bytes = "org.apache.kafka.common.serialization.ByteArraySerializer";
        config.put("key.serializer", bytes);
        config.put("value.serializer", bytes);
        config.putAll(Session.config(arguments));
        String topic = arguments.get("topic");
        int partitions = Integer.parseInt(arguments.get("partitions"));
        int first = Integer.parseInt(arguments.getOrDefault("first", "0"));
        long pause = 1000 / Integer.parseInt(arguments.get("rate"));
        Thread flow = new Thread(() -> {
            try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config)) {
                while (true) {
                    for (int partition = first; partition < partitions; partition++) {
                        producer.send(new ProducerRecord<>(topic, partition, null, new byte[1]));
                    }
                    Thread.sleep(pause);
                }
            } catch (InterruptedException over) {
                // the producer has sent what it had
            }
        });
        flow.setDaemon(true);
        FLOWS.put(topic, flow);
        flow.start();
        return "";
    }
}
