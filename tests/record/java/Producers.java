import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Verb produce (topic, partition, count, config.*): small records into one partition. */
public final class Producers implements Session.Actor {
    @Override
    public Map<String, Session.Verb> verbs() {
        Map<String, Session.Verb> verbs = new HashMap<>();
        verbs.put("produce", Producers::produce);
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
                future.get(30, TimeUnit.SECONDS);
            }
        }
        return "";
    }
}
