package kgroup;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.Uuid;

import java.io.InputStream;
import java.util.HashMap;
import java.util.Map;
import java.util.Random;

/** Random values, and random messages by Kafka's own definitions, as the JSON that its converters read. */
public class RandomMessages {
    private static final String FOLDER = "/common/message/";
    private static final ObjectMapper JSON =
        new ObjectMapper().configure(JsonParser.Feature.ALLOW_COMMENTS, true);

    public final Random random;
    private final Map<String, JsonNode> specs = new HashMap<>();

    public RandomMessages(long seed) {
        this.random = new Random(seed);
    }

    /** The definition of a generated class, from the jar that has the class. */
    public JsonNode spec(Class<?> message) throws Exception {
        String name = message.getSimpleName();
        JsonNode known = specs.get(name);
        if (known == null) {
            try (InputStream in = message.getResourceAsStream(FOLDER + name + ".json")) {
                known = JSON.readTree(in);
            }
            specs.put(name, known);
        }
        return known;
    }

    public ObjectNode message(Class<?> message, short version) throws Exception {
        JsonNode spec = spec(message);
        return struct(spec, spec.get("fields"), version);
    }

    public boolean flexible(Class<?> message, short version) throws Exception {
        return within(spec(message).get("flexibleVersions").asText(), version);
    }

    private ObjectNode struct(JsonNode message, JsonNode fields, short version) {
        ObjectNode node = JSON.createObjectNode();
        for (JsonNode field : fields) {
            String tagged = field.path("taggedVersions").asText("none");
            if (!within(field.path("versions").asText(tagged), version)) {
                continue;
            }
            if (within(tagged, version) && random.nextBoolean()) {
                continue;
            }
            String name = field.get("name").asText();
            name = name.substring(0, 1).toLowerCase() + name.substring(1);
            if (within(field.path("nullableVersions").asText("none"), version) && chance(3)) {
                node.putNull(name);
                continue;
            }
            String type = field.get("type").asText();
            if (type.startsWith("[]")) {
                ArrayNode array = node.putArray(name);
                for (int i = size(); i > 0; i--) {
                    array.add(value(message, field, type.substring(2), version));
                }
            } else {
                node.set(name, value(message, field, type, version));
            }
        }
        return node;
    }

    private JsonNode value(JsonNode message, JsonNode field, String type, short version) {
        var nodes = JSON.getNodeFactory();
        switch (type) {
            case "int8": return nodes.numberNode((byte) integer());
            case "int16": return nodes.numberNode((short) integer());
            case "uint16": return nodes.numberNode((int) integer() & 0xffff);
            case "int32": return nodes.numberNode((int) integer());
            case "int64": return nodes.numberNode(integer());
            case "string": return nodes.textNode(text());
            case "bytes": return nodes.binaryNode(bytes());
            case "uuid": return nodes.textNode(uuid().toString());
            default:
                JsonNode fields = field.get("fields");
                for (JsonNode common : message.path("commonStructs")) {
                    if (fields == null && common.get("name").asText().equals(type)) {
                        fields = common.get("fields");
                    }
                }
                return struct(message, fields, version);
        }
    }

    private static boolean within(String versions, short version) {
        if (versions.equals("none")) {
            return false;
        }
        if (versions.endsWith("+")) {
            return version >= Short.parseShort(versions.substring(0, versions.length() - 1));
        }
        String[] ends = versions.split("-");
        return version >= Short.parseShort(ends[0]) && version <= Short.parseShort(ends[ends.length - 1]);
    }

    public boolean chance(int oneIn) {
        return random.nextInt(oneIn) == 0;
    }

    public int size() {
        return chance(40) ? random.nextInt(60) : random.nextInt(4);
    }

    public long integer() {
        switch (random.nextInt(6)) {
            case 0: return random.nextLong();
            case 1: return new long[] {0, -1, 1, Long.MIN_VALUE, Long.MAX_VALUE, Integer.MIN_VALUE,
                Integer.MAX_VALUE, Short.MIN_VALUE, Short.MAX_VALUE, Byte.MIN_VALUE}[random.nextInt(10)];
            case 2: return 1700000000000L + random.nextInt();
            default: return random.nextInt(100);
        }
    }

    public Uuid uuid() {
        return chance(5) ? new Uuid(0, random.nextInt(2)) : new Uuid(random.nextLong(), random.nextLong());
    }

    public byte[] bytes() {
        byte[] bytes = new byte[chance(3) ? 0 : random.nextInt(chance(10) ? 300 : 20)];
        random.nextBytes(bytes);
        return bytes;
    }

    /** Letters, every plane of Unicode, surrogate pairs, line ends, and often nothing. */
    public String text() {
        StringBuilder text = new StringBuilder();
        for (int i = chance(5) ? 0 : random.nextInt(chance(20) ? 400 : 12); i > 0; i--) {
            int point;
            do {
                point = switch (random.nextInt(8)) {
                    case 0 -> random.nextInt(0x20);
                    case 1 -> random.nextInt(0x800);
                    case 2 -> random.nextInt(0x10000);
                    case 3 -> 0x10000 + random.nextInt(0x100000);
                    default -> 'a' + random.nextInt(26);
                };
            } while (point >= 0xd800 && point < 0xe000);
            text.appendCodePoint(point);
        }
        return text.toString();
    }
}
