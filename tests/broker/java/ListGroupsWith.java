import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.common.utils.Utils;

/**
 * Lists the groups of a cluster with each of the files of client properties that are named. Prints
 * a line for each: "ok", or the class of the error that ended it.
 */
public class ListGroupsWith {
    public static void main(String[] args) {
        for (String file : args) {
            System.out.println(outcome(file));
        }
    }

    private static String outcome(String file) {
        try {
            Properties properties = Utils.loadProps(file);
            properties.put("default.api.timeout.ms", "6000");
            properties.put("request.timeout.ms", "3000");
            properties.put("retries", "0");
            try (Admin admin = Admin.create(properties)) {
                admin.listGroups(new ListGroupsOptions().timeoutMs(3000)).all().get();
                return "ok";
            }
        } catch (ExecutionException e) {
            return e.getCause().getClass().getSimpleName();
        } catch (Exception e) {
            return e.getClass().getSimpleName();
        }
    }
}
