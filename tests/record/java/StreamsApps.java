import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Kafka Streams applications, 2.8.2 and later: records counted by a new key, or by their own.
 *
 * <p>The topology has two subtopologies with a repartition topic between them, a state store with
 * its changelog, a source and a sink; with the argument keyed one subtopology, without repartition
 * topic. Verbs: streams-start (name, source, sink, keyed, config.*),
 * streams-running (name): waits for the state RUNNING; streams-close (name); streams-restart-thread
 * (name): one thread leaves, and another one joins in its place.
 */
public final class StreamsApps implements Session.Actor {
    private final Map<String, KafkaStreams> apps = new ConcurrentHashMap<>();

    @Override
    public Map<String, Session.Verb> verbs() {
        Map<String, Session.Verb> verbs = new HashMap<>();
        verbs.put("streams-start", this::start);
        verbs.put("streams-running", arguments -> {
            KafkaStreams app = apps.get(arguments.get("name"));
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(180);
            int steady = 0;
            while (steady < 10) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("state " + app.state());
                }
                steady = app.state() == KafkaStreams.State.RUNNING ? steady + 1 : 0;
                Thread.sleep(100);
            }
            return app.state().toString();
        });
        verbs.put("streams-close", arguments -> {
            apps.remove(arguments.get("name")).close();
            return "";
        });
        verbs.put("streams-restart-thread", arguments -> {
            KafkaStreams app = apps.get(arguments.get("name"));
            return app.removeStreamThread().get() + " " + app.addStreamThread().get();
        });
        return verbs;
    }

    private String start(Map<String, String> arguments) {
        Properties config = new Properties();
        config.putAll(Session.config(arguments));
        StreamsBuilder builder = new StreamsBuilder();
        KStream<byte[], String> records = builder.stream(
            arguments.get("source"), Consumed.with(Serdes.ByteArray(), Serdes.String()));
        if (arguments.containsKey("keyed")) {
            records.groupByKey(Grouped.with(Serdes.ByteArray(), Serdes.String()))
                .count()
                .toStream()
                .to(arguments.get("sink"), Produced.with(Serdes.ByteArray(), Serdes.Long()));
        } else {
            records.groupBy((key, value) -> value, Grouped.with(Serdes.String(), Serdes.String()))
                .count()
                .toStream()
                .to(arguments.get("sink"), Produced.with(Serdes.String(), Serdes.Long()));
        }
        KafkaStreams app = new KafkaStreams(builder.build(), config);
        apps.put(arguments.get("name"), app);
        app.start();
        return "";
    }
}
