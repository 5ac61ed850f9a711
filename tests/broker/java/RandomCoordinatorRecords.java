package org.apache.kafka.tools;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import kgroup.RandomMessages;

import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.ConsumerProtocolAssignment;
import org.apache.kafka.common.message.ConsumerProtocolAssignmentJsonConverter;
import org.apache.kafka.common.message.ConsumerProtocolSubscription;
import org.apache.kafka.common.message.ConsumerProtocolSubscriptionJsonConverter;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordType;
import org.apache.kafka.coordinator.group.generated.GroupMetadataValue;
import org.apache.kafka.server.common.ApiMessageAndVersion;

import java.io.BufferedOutputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HexFormat;

/**
 * Random records of __consumer_offsets, made and read by Kafka itself.
 *
 * Arguments: seed, records of each type and version, damaged copies of each record.
 * Prints a JSON object a line:
 *   key, value     the bytes in hex (value null: a tombstone)
 *   damaged        whether the bytes were changed after Kafka wrote them
 *   keyText        what DumpLogSegments prints for the key with a tombstone as value
 *   valueText      what it prints for the whole record's value; null if it printed an error
 *   members        for a group of consumers that it could read, each member's subscriptionBytes and
 *                  assignmentBytes in hex, and what Kafka's clients read in them as subscription and
 *                  assignment: JSON, or null where they throw
 */
public class RandomCoordinatorRecords extends RandomMessages {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();
    private static final GroupCoordinatorRecordSerde SERDE = new GroupCoordinatorRecordSerde();
    private static final DumpLogSegments.OffsetsMessageParser PARSER =
        new DumpLogSegments.OffsetsMessageParser();
    private static final String[] PROTOCOLS = {
        "range", "roundrobin", "sticky", "cooperative-sticky", "stream", "", "uniform"
    };

    private final OutputStream out = new BufferedOutputStream(System.out, 1 << 16);

    private RandomCoordinatorRecords(long seed) {
        super(seed);
    }

    public static void main(String[] args) throws Exception {
        RandomCoordinatorRecords made = new RandomCoordinatorRecords(Long.parseLong(args[0]));
        int records = Integer.parseInt(args[1]);
        int damaged = Integer.parseInt(args[2]);
        for (CoordinatorRecordType type : CoordinatorRecordType.values()) {
            ApiMessage newest = type.newRecordValue();
            for (short v = newest.lowestSupportedVersion(); v <= newest.highestSupportedVersion(); v++) {
                for (int i = 0; i < records; i++) {
                    made.record(type, v, i % 16 == 15, damaged);
                }
            }
        }
        made.out.flush();
    }

    private void record(CoordinatorRecordType type, short version, boolean tombstone, int damaged)
        throws Exception {
        Class<?> keyType = type.newRecordKey().getClass();
        Class<?> valueType = type.newRecordValue().getClass();
        ApiMessage key = CoordinatorRecordJsonConverters.readRecordKeyFromJson(
            message(keyType, (short) 0), type.id());
        CoordinatorRecord record;
        if (tombstone) {
            record = CoordinatorRecord.tombstone(key);
        } else {
            ApiMessage value = CoordinatorRecordJsonConverters.readRecordValueFromJson(
                message(valueType, version), type.id(), version);
            if (value instanceof GroupMetadataValue group) {
                fillMembers(group);
            }
            if (flexible(valueType, version) && chance(8)) {
                value.unknownTaggedFields().add(new RawTaggedField(100 + random.nextInt(9), bytes()));
            }
            record = CoordinatorRecord.record(key, new ApiMessageAndVersion(value, version));
        }
        byte[] keyBytes = SERDE.serializeKey(record);
        byte[] valueBytes = SERDE.serializeValue(record);
        print(keyBytes, valueBytes, false);
        for (int i = 0; i < damaged; i++) {
            boolean inKey = valueBytes == null || chance(4);
            print(inKey ? damage(keyBytes) : keyBytes, inKey ? valueBytes : damage(valueBytes), true);
        }
    }

    private void fillMembers(GroupMetadataValue group) {
        group.setProtocolType(new String[] {"consumer", "consumer", "consumer", "connect", text()}[random.nextInt(5)]);
        if (!chance(4)) {
            group.setProtocol(PROTOCOLS[random.nextInt(PROTOCOLS.length)]);
        }
        for (GroupMetadataValue.MemberMetadata member : group.members()) {
            member.setSubscription(chance(6) ? bytes() : subscription());
            member.setAssignment(chance(6) ? bytes() : assignment());
        }
    }

    private byte[] subscription() {
        ConsumerProtocolSubscription data = new ConsumerProtocolSubscription();
        for (int i = size(); i > 0; i--) {
            data.topics().add(text());
        }
        data.setUserData(chance(2) ? null : ByteBuffer.wrap(bytes()));
        short version = (short) random.nextInt(4);
        if (version >= 1) {
            for (int i = size(); i > 0; i--) {
                var topic = new ConsumerProtocolSubscription.TopicPartition().setTopic(text());
                for (int j = size(); j > 0; j--) {
                    topic.partitions().add((int) integer());
                }
                data.ownedPartitions().add(topic);
            }
        }
        data.setGenerationId(version >= 2 ? (int) integer() : -1);
        data.setRackId(version >= 3 && chance(2) ? text() : null);
        return newer(MessageUtil.toVersionPrefixedBytes(version, data));
    }

    private byte[] assignment() {
        ConsumerProtocolAssignment data = new ConsumerProtocolAssignment();
        for (int i = size(); i > 0; i--) {
            var topic = new ConsumerProtocolAssignment.TopicPartition().setTopic(text());
            for (int j = size(); j > 0; j--) {
                topic.partitions().add((int) integer());
            }
            data.assignedPartitions().add(topic);
        }
        data.setUserData(chance(2) ? null : ByteBuffer.wrap(bytes()));
        return newer(MessageUtil.toVersionPrefixedBytes((short) random.nextInt(4), data));
    }

    /** Now and then: a version that this Kafka does not know, or bytes behind the end. */
    private byte[] newer(byte[] bytes) {
        if (chance(10)) {
            bytes[1] = (byte) (3 + random.nextInt(3));
        }
        return chance(10) ? Arrays.copyOf(bytes, bytes.length + 1 + random.nextInt(5)) : bytes;
    }

    // ---- damage ----

    private byte[] damage(byte[] bytes) {
        byte[] changed = bytes.clone();
        for (int i = chance(3) ? 1 + random.nextInt(5) : 1; i > 0; i--) {
            int at = changed.length == 0 ? 0 : random.nextInt(chance(2) ? Math.min(changed.length, 24) : changed.length);
            switch (random.nextInt(6)) {
                case 0:  // cut
                    changed = Arrays.copyOf(changed, at);
                    break;
                case 1:  // more at the end
                    changed = Arrays.copyOf(changed, changed.length + 1 + random.nextInt(4));
                    break;
                case 2:  // one byte too many
                    changed = splice(changed, at, at, new byte[] {interesting()});
                    break;
                case 3:  // some bytes too few
                    changed = splice(changed, at, Math.min(changed.length, at + 1 + random.nextInt(3)), new byte[0]);
                    break;
                case 4:  // no, or bad, UTF-8
                    changed = splice(changed, at, Math.min(changed.length, at + 4), new byte[] {
                        (byte) (0xc0 + random.nextInt(64)), (byte) (0x80 + random.nextInt(64)),
                        (byte) (0x70 + random.nextInt(96)), interesting()});
                    break;
                default:
                    if (changed.length > 0) {
                        changed[at] = chance(2) ? interesting() : (byte) (changed[at] ^ 1 << random.nextInt(8));
                    }
            }
        }
        return changed;
    }

    private byte interesting() {
        byte[] often = {0, 1, 2, -1, 0x7f, (byte) 0x80, (byte) 0x81, 3, 4, 8, 0x0f};
        return chance(3) ? (byte) random.nextInt(256) : often[random.nextInt(often.length)];
    }

    private static byte[] splice(byte[] bytes, int from, int to, byte[] put) {
        byte[] changed = new byte[bytes.length - (to - from) + put.length];
        System.arraycopy(bytes, 0, changed, 0, from);
        System.arraycopy(put, 0, changed, from, put.length);
        System.arraycopy(bytes, to, changed, from + put.length, bytes.length - to);
        return changed;
    }

    // ---- what Kafka reads ----

    private void print(byte[] key, byte[] value, boolean damaged) throws Exception {
        ObjectNode line = JSON.createObjectNode();
        line.put("key", HEX.formatHex(key));
        line.put("value", value == null ? null : HEX.formatHex(value));
        line.put("damaged", damaged);
        line.put("keyText", parse(key, null).key().get());
        DumpLogSegments.ParseResult<String, String> whole = parse(key, value);
        line.put("valueText", whole.value().orElse(null));
        if (whole.value().isPresent() && value != null) {
            ApiMessage message = SERDE.deserialize(ByteBuffer.wrap(key), ByteBuffer.wrap(value)).value().message();
            if (message instanceof GroupMetadataValue group && group.protocolType().equals("consumer")) {
                ArrayNode members = line.putArray("members");
                for (GroupMetadataValue.MemberMetadata member : group.members()) {
                    ObjectNode read = members.addObject();
                    read.put("subscriptionBytes", HEX.formatHex(member.subscription()));
                    read.set("subscription", clientSubscription(member.subscription()));
                    read.put("assignmentBytes", HEX.formatHex(member.assignment()));
                    read.set("assignment", clientAssignment(member.assignment()));
                }
            }
        }
        out.write(line.toString().getBytes(StandardCharsets.UTF_8));
        out.write('\n');
    }

    private static DumpLogSegments.ParseResult<String, String> parse(byte[] key, byte[] value) {
        SimpleRecord simple = new SimpleRecord(0, key, value);
        Record record = MemoryRecords.withRecords(Compression.NONE, simple).records().iterator().next();
        return PARSER.parse(record);
    }

    private static JsonNode clientSubscription(byte[] bytes) {
        try {
            short version = (short) Math.min(ByteBuffer.wrap(bytes).getShort(), 3);
            return ConsumerProtocolSubscriptionJsonConverter.write(
                ConsumerProtocol.deserializeConsumerProtocolSubscription(ByteBuffer.wrap(bytes)), version);
        } catch (RuntimeException e) {
            return JSON.nullNode();
        }
    }

    private static JsonNode clientAssignment(byte[] bytes) {
        try {
            short version = (short) Math.min(ByteBuffer.wrap(bytes).getShort(), 3);
            return ConsumerProtocolAssignmentJsonConverter.write(
                ConsumerProtocol.deserializeConsumerProtocolAssignment(ByteBuffer.wrap(bytes)), version);
        } catch (RuntimeException e) {
            return JSON.nullNode();
        }
    }
}
