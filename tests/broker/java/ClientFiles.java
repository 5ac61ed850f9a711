package org.apache.kafka.common.security;

import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;

/**
 * Reads what clients are configured with, as Kafka's Java client does. One case a line of input:
 * "properties BASE64", "jaas BASE64" or "keys"; one line of output for each: "error", or texts in
 * base64 of UTF-8 with a blank between them: keys and values in turn, after a login module's name.
 */
public class ClientFiles {
    public static void main(String[] args) throws Exception {
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        StringBuilder out = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", 2);
            byte[] data = Base64.getDecoder().decode(words.length > 1 ? words[1] : "");
            try {
                out.append(answer(words[0], data).strip());
            } catch (IllegalArgumentException | NullPointerException e) {
                out.append("error");
            }
            out.append('\n');
        }
        System.out.print(out);
    }

    private static String answer(String what, byte[] data) throws Exception {
        StringBuilder text = new StringBuilder();
        if (what.equals("keys")) {
            TreeSet<String> keys = new TreeSet<>(AdminClientConfig.configNames());
            keys.addAll(ConsumerConfig.configNames());
            keys.addAll(ProducerConfig.configNames());
            keys.forEach(key -> add(text, key));
        } else if (what.equals("properties")) {
            Properties properties = new Properties();
            properties.load(new ByteArrayInputStream(data));
            Map<String, String> sorted = new TreeMap<>();
            properties.forEach((key, value) -> sorted.put((String) key, (String) value));
            sorted.forEach((key, value) -> { add(text, key); add(text, value); });
        } else {
            JaasConfig config = new JaasConfig("x", new String(data, StandardCharsets.UTF_8));
            AppConfigurationEntry[] entries = config.getAppConfigurationEntry("x");
            if (entries.length != 1) throw new IllegalArgumentException();
            add(text, entries[0].getLoginModuleName());
            new TreeMap<String, Object>(entries[0].getOptions()).forEach((key, value) -> {
                add(text, key);
                add(text, (String) value);
            });
        }
        return text.toString();
    }

    private static void add(StringBuilder text, String value) {
        byte[] data = value.getBytes(StandardCharsets.UTF_8);
        text.append('=').append(Base64.getEncoder().encodeToString(data)).append(' ');
    }
}
