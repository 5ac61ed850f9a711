import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;

/**
 * Offsets committed in transactions, Kafka 0.11.0.3 to 4.3.1.
 *
 * <p>Verb transaction (id, group, offsets, metadata, end=commit|abort|open, config.*): one
 * transaction that commits these offsets. A producer lives on for the next transaction of the
 * same id.
 */
public final class Transactions implements Session.Actor {
    private final Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();

    @Override
    public Map<String, Session.Verb> verbs() {
        Map<String, Session.Verb> verbs = new HashMap<>();
        verbs.put("transaction", this::transaction);
        return verbs;
    }

    private String transaction(Map<String, String> arguments) throws Exception {
        KafkaProducer<byte[], byte[]> producer = producers.get(arguments.get("id"));
        if (producer == null) {
            Map<String, Object> config = new HashMap<>();
            String bytes = "org.apache.kafka.common.serialization.ByteArraySerializer";
            config.put("key.serializer", bytes);
            config.put("value.serializer", bytes);
            config.put("transactional.id", arguments.get("id"));
            config.put("transaction.timeout.ms", "600000"); // else brokers end it after a minute
            config.putAll(Session.config(arguments));
            producer = new KafkaProducer<>(config);
            producer.initTransactions();
            producers.put(arguments.get("id"), producer);
        }
        producer.beginTransaction();
        sendOffsets(producer, Consumers.offsets(arguments.get("offsets"), arguments.get("metadata")),
            arguments.get("group"));
        switch (arguments.get("end")) {
            case "commit":
                producer.commitTransaction();
                break;
            case "abort":
                producer.abortTransaction();
                break;
            default:
        }
        return "";
    }

    /** The group is a string until 2.4, {@code ConsumerGroupMetadata} since 2.5. */
    private static void sendOffsets(KafkaProducer<byte[], byte[]> producer,
            Map<TopicPartition, OffsetAndMetadata> offsets, String group) throws Exception {
        Method send = null;
        Object argument = null;
        try {
            Class<?> type = Class.forName("org.apache.kafka.clients.consumer.ConsumerGroupMetadata");
            send = KafkaProducer.class.getMethod("sendOffsetsToTransaction", Map.class, type);
            argument = type.getConstructor(String.class).newInstance(group);
        } catch (ReflectiveOperationException older) {
            send = KafkaProducer.class.getMethod("sendOffsetsToTransaction", Map.class, String.class);
            argument = group;
        }
        try {
            send.invoke(producer, offsets, argument);
        } catch (InvocationTargetException wrapped) {
            throw (Exception) wrapped.getCause();
        }
    }
}
