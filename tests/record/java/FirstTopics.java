import java.util.HashMap;
import java.util.Map;
import kafka.admin.CreateTopicCommand;
import kafka.utils.ZKStringSerializer$;
import org.I0Itec.zkclient.ZkClient;

/** Verb old-topic of {@link OldTopics}, for 0.8.0: topics have no configuration there. */
public final class FirstTopics implements Session.Actor {
    @Override
    public Map<String, Session.Verb> verbs() {
        Map<String, Session.Verb> verbs = new HashMap<>();
        verbs.put("old-topic", FirstTopics::create);
        return verbs;
    }

    private static String create(Map<String, String> arguments) {
        String replicas = arguments.get("replicas");
        ZkClient client =
            new ZkClient(arguments.get("zookeeper"), 20000, 20000, ZKStringSerializer$.MODULE$);
        try {
            CreateTopicCommand.createTopic(
                client, arguments.get("topic"), replicas.split(",").length, 1, replicas);
        } finally {
            client.close();
        }
        return "";
    }
}
