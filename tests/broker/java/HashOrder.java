package kgroup;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;

/**
 * Prints the order in which a HashMap gives its keys.
 *
 * Reads a JSON object a line: capacity (null: the default), steps ([["put"|"compute"|"remove", key]]);
 * prints the keys as a JSON array.
 */
public class HashOrder {
    public static void main(String[] args) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder out = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode test = json.readTree(line);
            JsonNode capacity = test.get("capacity");
            HashMap<String, Object> map = capacity.isNull() ? new HashMap<>() : new HashMap<>(capacity.asInt());
            for (JsonNode step : test.get("steps")) {
                String key = step.get(1).asText();
                switch (step.get(0).asText()) {
                    case "put": map.put(key, key); break;
                    case "compute": map.computeIfAbsent(key, k -> k); break;
                    default: map.remove(key);
                }
            }
            out.append(json.writeValueAsString(map.keySet())).append('\n');
        }
        System.out.write(out.toString().getBytes(StandardCharsets.UTF_8));
        System.out.flush();
    }
}
