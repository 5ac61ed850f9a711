import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** Connectors that do nothing, so that the workers of a Connect cluster have something to share. */
public final class IdleConnectors {
    private IdleConnectors() { }

    /** Reads nothing. */
    public static final class Source extends SourceConnector {
        @Override
        public void start(Map<String, String> config) { }

        @Override
        public Class<? extends Task> taskClass() {
            return IdleSource.class;
        }

        @Override
        public List<Map<String, String>> taskConfigs(int count) {
            return configs(count);
        }

        @Override
        public void stop() { }

        @Override
        public ConfigDef config() {
            return new ConfigDef();
        }

        @Override
        public String version() {
            return "1";
        }
    }

    /**
     * Drops what it gets; its tasks are members of the consumer group connect-NAME.
     *
     * <p>Where its configuration names a file {@code journal}, the tasks note there what they have
     * done, as {@code Consumers} do: assigned, revoked, or read.
     */
    public static final class Sink extends SinkConnector {
        private String journal;

        @Override
        public void start(Map<String, String> config) {
            journal = config.get("journal");
        }

        @Override
        public Class<? extends Task> taskClass() {
            return IdleSink.class;
        }

        @Override
        public List<Map<String, String>> taskConfigs(int count) {
            List<Map<String, String>> configs = configs(count);
            for (int i = 0; journal != null && i < count; i++) {
                configs.get(i).put("journal", journal);
                configs.get(i).put("task", String.valueOf(i));
            }
            return configs;
        }

        @Override
        public void stop() { }

        @Override
        public ConfigDef config() {
            return new ConfigDef();
        }

        @Override
        public String version() {
            return "1";
        }
    }

    /** The task of {@link Source}. */
    public static final class IdleSource extends SourceTask {
        @Override
        public void start(Map<String, String> config) { }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            Thread.sleep(500);
            return null;
        }

        @Override
        public void stop() { }

        @Override
        public String version() {
            return "1";
        }
    }

    /** The task of {@link Sink}. */
    public static final class IdleSink extends SinkTask {
        private final Set<TopicPartition> owned = new HashSet<>();
        private Map<String, String> config;

        @Override
        public void start(Map<String, String> config) {
            this.config = config;
        }

        @Override
        public void open(Collection<TopicPartition> partitions) {
            owned.addAll(partitions);
            partitions.forEach(partition -> note("assigned", partition));
        }

        @Override
        public void close(Collection<TopicPartition> partitions) {
            // Kafka 4.3.1 closes at the end once more what was revoked by and by.
            partitions.stream().filter(owned::remove).forEach(partition -> note("revoked", partition));
        }

        @Override
        public void put(Collection<SinkRecord> records) {
            Map<TopicPartition, long[]> read = new LinkedHashMap<>();
            for (SinkRecord record : records) {
                long offset = record.kafkaOffset();
                read.computeIfAbsent(new TopicPartition(record.topic(), record.kafkaPartition()),
                    first -> new long[] {offset, offset})[1] = offset;
            }
            read.forEach((partition, offsets) ->
                note("read", partition + " " + offsets[0] + " " + offsets[1]));
        }

        private void note(String word, Object what) {
            if (!config.containsKey("journal")) {
                return;
            }
            String line = String.join(" ", String.valueOf(System.currentTimeMillis()),
                config.get("task"), word, what.toString());
            try {
                Files.writeString(Path.of(config.get("journal")), line + "\n",
                    StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            } catch (IOException problem) {
                throw new UncheckedIOException(problem);
            }
        }

        @Override
        public void stop() { }

        @Override
        public String version() {
            return "1";
        }
    }

    private static List<Map<String, String>> configs(int count) {
        List<Map<String, String>> configs = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            configs.add(new HashMap<>());
        }
        return configs;
    }
}
