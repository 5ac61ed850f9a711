import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.common.utils.Utils;

/**
 * Lists the groups of a cluster with each of the files of client properties that are named, after
 * the milliseconds to wait for each answer. Prints a line for each: "ok", or the class of the error
 * that ended it.
 */
public class ListGroupsWith {
    public static void main(String[] args) {
        for (int i = 1; i < args.length; i++) {
            System.out.println(outcome(args[i], Integer.parseInt(args[0])));
        }
    }

    private static String outcome(String file, int patienceMs) {
        try {
            Properties properties = Utils.loadProps(file);
            properties.put("default.api.timeout.ms", "" + 2 * patienceMs);
            properties.put("request.timeout.ms", "" + patienceMs);
            properties.put("retries", "0");
            try (Admin admin = Admin.create(properties)) {
                admin.listGroups(new ListGroupsOptions().timeoutMs(patienceMs)).all().get();
                return "ok";
            }
        } catch (ExecutionException e) {
            return e.getCause().getClass().getSimpleName();
        } catch (Exception e) {
            return e.getClass().getSimpleName();
        }
    }
}
