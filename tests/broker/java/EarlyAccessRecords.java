package kgroup;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;

import java.nio.charset.StandardCharsets;
import java.util.HexFormat;

/**
 * Random records of types that a release wrote in a shape of its own, made by that release's classes.
 *
 * Arguments: seed, records of each type, then the types' names.
 * Prints a JSON object a line: type (the key's version), key and value (hex), keyData, valueData (as
 * that release's JSON converters print them).
 */
public class EarlyAccessRecords {
    private static final String PACKAGE = "org.apache.kafka.coordinator.group.generated.";

    public static void main(String[] args) throws Exception {
        RandomMessages random = new RandomMessages(Long.parseLong(args[0]));
        ObjectMapper json = new ObjectMapper();
        for (int i = 2; i < args.length; i++) {
            Class<?> keyType = Class.forName(PACKAGE + args[i] + "Key");
            Class<?> valueType = Class.forName(PACKAGE + args[i] + "Value");
            short type = Short.parseShort(random.spec(keyType).get("validVersions").asText());
            for (int j = Integer.parseInt(args[1]); j > 0; j--) {
                ObjectNode keyData = random.message(keyType, type);
                ObjectNode line = json.createObjectNode();
                line.put("type", type);
                line.put("key", bytes(keyType, keyData, type));
                line.set("keyData", again(keyType, keyData, type));
                ObjectNode valueData = random.message(valueType, (short) 0);
                line.put("value", bytes(valueType, valueData, (short) 0));
                line.set("valueData", again(valueType, valueData, (short) 0));
                System.out.write((line + "\n").getBytes(StandardCharsets.UTF_8));
            }
        }
        System.out.flush();
    }

    private static Message message(Class<?> type, JsonNode data, short version) throws Exception {
        return (Message) Class.forName(type.getName() + "JsonConverter")
            .getMethod("read", JsonNode.class, short.class).invoke(null, data, version);
    }

    private static String bytes(Class<?> type, JsonNode data, short version) throws Exception {
        return HexFormat.of().formatHex(
            MessageUtil.toVersionPrefixedBytes(version, message(type, data, version)));
    }

    private static JsonNode again(Class<?> type, JsonNode data, short version) throws Exception {
        return (JsonNode) Class.forName(type.getName() + "JsonConverter")
            .getMethod("write", type, short.class).invoke(null, message(type, data, version), version);
    }
}
