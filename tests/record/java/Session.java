import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Clients under remote control: reads a command a line from standard input, answers with a line.
 *
 * <p>A command is {@code verb key=value key=value ...}, an answer {@code ok text} or
 * {@code failed text}; keys, values and texts are URL-encoded. The program arguments name the
 * actors, classes that bring verbs, so that one source serves Kafka versions that lack a client.
 * End of input halts the process: its clients vanish as in a crash and leave no group.
 */
public final class Session {
    /** What one verb does; the answer is its result. */
    public interface Verb {
        String run(Map<String, String> arguments) throws Exception;
    }

    /** A class that brings verbs. */
    public interface Actor {
        Map<String, Verb> verbs();
    }

    public static void main(String[] actors) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        Map<String, Verb> verbs = new HashMap<>();
        for (String actor : actors) {
            verbs.putAll(((Actor) Class.forName(actor).getDeclaredConstructor().newInstance()).verbs());
        }
        BufferedReader commands =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            answers.println(answer(verbs, line.split(" ")));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static String answer(Map<String, Verb> verbs, String[] words) {
        try {
            Verb verb = verbs.get(words[0]);
            if (verb == null) {
                throw new IllegalArgumentException("no verb " + words[0]);
            }
            Map<String, String> arguments = new LinkedHashMap<>();
            for (int i = 1; i < words.length; i++) {
                String[] pair = words[i].split("=", 2);
                arguments.put(decode(pair[0]), decode(pair[1]));
            }
            return "ok " + encode(verb.run(arguments));
        } catch (Throwable problem) {
            problem.printStackTrace();
            return "failed " + encode(problem.toString());
        }
    }

    /** The arguments that begin with {@code config.}, as a client's configuration. */
    public static Map<String, Object> config(Map<String, String> arguments) {
        Map<String, Object> config = new HashMap<>();
        arguments.forEach((key, value) -> {
            if (key.startsWith("config.")) {
                config.put(key.substring("config.".length()), value);
            }
        });
        return config;
    }

    private static String decode(String text) throws Exception {
        return URLDecoder.decode(text, "UTF-8");
    }

    private static String encode(String text) {
        try {
            return URLEncoder.encode(text, "UTF-8");
        } catch (java.io.UnsupportedEncodingException impossible) {
            throw new AssertionError(impossible);
        }
    }
}
