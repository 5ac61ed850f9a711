import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import kafka.admin.TopicCommand;
import kafka.utils.ZKStringSerializer$;
import org.I0Itec.zkclient.ZkClient;

/**
 * Verb old-topic (zookeeper, topic, replicas, config.*): creates a topic in ZooKeeper, since 0.8.1;
 * replicas are the broker ids of each partition, as {@code kafka-topics --replica-assignment} takes
 * them.
 */
public final class OldTopics implements Session.Actor {
    @Override
    public Map<String, Session.Verb> verbs() {
        Map<String, Session.Verb> verbs = new HashMap<>();
        verbs.put("old-topic", OldTopics::create);
        return verbs;
    }

    private static String create(Map<String, String> arguments) {
        List<String> command = new ArrayList<>(Arrays.asList(
            "--create", "--topic", arguments.get("topic"),
            "--replica-assignment", arguments.get("replicas")));
        Session.config(arguments).forEach((key, value) -> {
            if (!key.equals("bootstrap.servers")) {
                command.add("--config");
                command.add(key + "=" + value);
            }
        });
        ZkClient client =
            new ZkClient(arguments.get("zookeeper"), 20000, 20000, ZKStringSerializer$.MODULE$);
        try {
            TopicCommand.createTopic(
                client, new TopicCommand.TopicCommandOptions(command.toArray(new String[0])));
        } finally {
            client.close();
        }
        return "";
    }
}
