import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import kafka.javaapi.producer.Producer;
import kafka.producer.KeyedMessage;
import kafka.producer.Partitioner;
import kafka.producer.ProducerConfig;
import kafka.utils.VerifiableProperties;

/**
 * Verb produce of {@link Producers}, for versions before 0.8.2, which have no other producer than
 * that of the server's jar. The key of a record is the number of its partition.
 */
public final class OldProducers implements Session.Actor {
    /** Takes the key for the partition. */
    @SuppressWarnings("rawtypes")
    public static final class ByKey implements Partitioner {
        public ByKey(VerifiableProperties properties) {
        }

        @Override
        public int partition(Object key, int partitions) {
            return Integer.parseInt((String) key);
        }
    }

    @Override
    public Map<String, Session.Verb> verbs() {
        Map<String, Session.Verb> verbs = new HashMap<>();
        verbs.put("produce", OldProducers::produce);
        return verbs;
    }

    private static String produce(Map<String, String> arguments) throws Exception {
        Properties config = new Properties();
        config.put("metadata.broker.list", Session.config(arguments).get("bootstrap.servers"));
        config.put("request.required.acks", "1");
        config.put("serializer.class", "kafka.serializer.DefaultEncoder");
        config.put("key.serializer.class", "kafka.serializer.StringEncoder");
        config.put("partitioner.class", ByKey.class.getName());
        Producer<String, byte[]> producer = new Producer<>(new ProducerConfig(config));
        try {
            List<KeyedMessage<String, byte[]>> records = new ArrayList<>();
            for (int i = 0; i < Integer.parseInt(arguments.get("count")); i++) {
                records.add(new KeyedMessage<>(arguments.get("topic"),
                    arguments.get("partition"), ("#" + i).getBytes("UTF-8")));
            }
            producer.send(records);
        } finally {
            producer.close();
        }
        return "";
    }
}
