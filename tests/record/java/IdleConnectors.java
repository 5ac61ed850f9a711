import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
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

    /** Drops what it gets; its tasks are members of the consumer group connect-NAME. */
    public static final class Sink extends SinkConnector {
        @Override
        public void start(Map<String, String> config) { }

        @Override
        public Class<? extends Task> taskClass() {
            return IdleSink.class;
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
        @Override
        public void start(Map<String, String> config) { }

        @Override
        public void put(Collection<SinkRecord> records) { }

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
