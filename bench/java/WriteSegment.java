import java.io.FileOutputStream;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.ByteBufferOutputStream;
import org.apache.kafka.coordinator.group.generated.GroupMetadataKey;
import org.apache.kafka.coordinator.group.generated.GroupMetadataValue;
import org.apache.kafka.coordinator.group.generated.OffsetCommitKey;
import org.apache.kafka.coordinator.group.generated.OffsetCommitValue;

/**
 * Writes a segment of __consumer_offsets as a coordinator would: every batch is one group's, either
 * commits of some of its partitions or its metadata. Two thirds of the values are of the versions
 * that brokers before 4.1 write, one third of those since; one commit in a hundred is a tombstone.
 * Metadata is either recorded, of one protocol for each group, or made up with changing members.
 *
 * Arguments: file, size in bytes, most commits in a batch, codec, partitions of a group, a file of
 * recorded metadata or "-"; then, if wanted, a number for other random data, and either the longest
 * time between two batches in milliseconds, exclusive, or files that go on where the one before ends:
 * the folder, in which they are named after their first offsets, their sizes in bytes with commas in
 * between, and, if wanted, that longest time. Recorded metadata is, for each protocol, the count of its
 * values, and their sizes and bytes.
 */
public final class WriteSegment {
    private static final int GROUPS = 2_000;
    private static final int TOPICS = 500;
    private static final double METADATA_SHARE = 1 / 40.0;
    private static final int LEADER_EPOCH = 7;
    private static final String[] TEAMS = {"billing", "search", "fraud", "mail", "risk", "ads", "log", "crm"};
    private static final String[] JOBS = {"indexer", "sync", "sink", "audit", "enrich", "alerts", "etl"};

    private final Random random;
    private final Group[] groups = new Group[GROUPS];
    private final Compression compression;
    private final List<byte[][]> recorded;
    private final int pace;
    private long now = 1_760_000_000_000L;
    private long nextOffset = 5_000_000_000L;
    private long records = 0;
    private ByteBuffer buffer = ByteBuffer.allocate(1 << 16);

    /** A topic with its id. */
    private record Topic(String name, Uuid id) { }

    /** A group with the partitions that it reads, their positions, and what its clients store. */
    private static final class Group {
        String id;
        String protocol;
        String metadata;
        int generation;
        boolean recent;
        Topic[] topics;
        TopicPartition[] partitions;
        Uuid[] topicIds;
        long[] positions;
        byte[][] recorded;
    }

    private WriteSegment(String codec, int partitionsOfGroup, List<byte[][]> recorded, long seed, int pace) {
        random = new Random(20260101 + seed);
        this.recorded = recorded;
        this.pace = pace;
        compression = Compression.of(CompressionType.forName(codec)).build();
        Topic[] topics = new Topic[TOPICS];
        for (int i = 0; i < TOPICS; i++)
            topics[i] = new Topic(pick(TEAMS) + "." + pick(JOBS) + "." + i, new Uuid(random.nextLong(), random.nextLong()));
        for (int i = 0; i < GROUPS; i++)
            groups[i] = newGroup(i, topics, partitionsOfGroup);
    }

    private Group newGroup(int number, Topic[] topics, int partitionsOfGroup) {
        Group group = new Group();
        group.id = pick(TEAMS) + "-" + pick(JOBS) + "-" + number;
        group.protocol = random.nextInt(4) == 0 ? "cooperative-sticky" : "range";
        group.metadata = random.nextInt(20) == 0 ? "AgAAAZbR" + number + "==" : "";
        group.generation = 1 + random.nextInt(1000);
        group.recent = random.nextInt(3) == 0;
        group.topics = new Topic[1 + random.nextInt(3)];
        for (int i = 0; i < group.topics.length; i++)
            group.topics[i] = topics[random.nextInt(TOPICS)];
        group.partitions = new TopicPartition[partitionsOfGroup];
        group.topicIds = new Uuid[partitionsOfGroup];
        group.positions = new long[partitionsOfGroup];
        for (int i = 0; i < partitionsOfGroup; i++) {
            Topic topic = group.topics[i % group.topics.length];
            group.partitions[i] = new TopicPartition(topic.name(), i / group.topics.length);
            group.topicIds[i] = topic.id();
            group.positions[i] = random.nextInt(1 << 30);
        }
        if (!recorded.isEmpty())
            group.recorded = recorded.get(number % recorded.size());
        return group;
    }

    private String pick(String[] words) {
        return words[random.nextInt(words.length)];
    }

    private void run(Path path, long size, int mostCommits) throws Exception {
        double commits = (1 + mostCommits) / 2.0;
        double odds = METADATA_SHARE * commits / (1 - METADATA_SHARE);
        double metadataBatches = odds / (1 + odds);
        try (FileOutputStream file = new FileOutputStream(path.toFile())) {
            FileChannel channel = file.getChannel();
            ByteBuffer out = ByteBuffer.allocateDirect(1 << 24);
            long written = 0;
            while (written < size) {
                now += random.nextInt(pace);
                Group group = groups[random.nextInt(GROUPS)];
                ByteBuffer batch = random.nextDouble() < metadataBatches
                    ? metadataBatch(group)
                    : commitBatch(group, 1 + random.nextInt(mostCommits));
                written += batch.remaining();
                if (out.remaining() < batch.remaining())
                    flush(out, channel);
                out.put(batch);
            }
            flush(out, channel);
        }
    }

    private static void flush(ByteBuffer out, FileChannel channel) throws Exception {
        out.flip();
        while (out.hasRemaining())
            channel.write(out);
        out.clear();
    }

    private ByteBuffer commitBatch(Group group, int commits) {
        MemoryRecordsBuilder builder = newBatch();
        int first = random.nextInt(group.partitions.length);
        for (int i = 0; i < commits; i++) {
            int at = (first + i * group.topics.length) % group.partitions.length;
            group.positions[at] += random.nextInt(500);
            OffsetCommitKey key = new OffsetCommitKey()
                .setGroup(group.id)
                .setTopic(group.partitions[at].topic())
                .setPartition(group.partitions[at].partition());
            OffsetCommitValue value = new OffsetCommitValue()
                .setOffset(group.positions[at])
                .setLeaderEpoch(random.nextInt(8) - 1)
                .setMetadata(group.metadata)
                .setCommitTimestamp(now);
            if (group.recent)
                value.setTopicId(group.topicIds[at]);
            boolean tombstone = random.nextInt(100) == 0;
            builder.append(
                now,
                MessageUtil.toVersionPrefixedBytes((short) 1, key),
                tombstone ? null : MessageUtil.toVersionPrefixedBytes((short) (group.recent ? 4 : 3), value));
        }
        return finish(builder, commits);
    }

    private ByteBuffer metadataBatch(Group group) {
        group.generation++;
        if (group.recorded != null)
            return metadataBatch(group, group.recorded[group.generation % group.recorded.length]);
        int size = 1 + random.nextInt(4);
        List<GroupMetadataValue.MemberMetadata> members = new ArrayList<>(size);
        for (int i = 0; i < size; i++)
            members.add(member(group, i, size));
        GroupMetadataValue value = new GroupMetadataValue()
            .setProtocolType(ConsumerProtocol.PROTOCOL_TYPE)
            .setGeneration(group.generation)
            .setProtocol(group.protocol)
            .setLeader(members.get(0).memberId())
            .setCurrentStateTimestamp(now)
            .setMembers(members);
        return metadataBatch(group, MessageUtil.toVersionPrefixedBytes((short) (group.recent ? 4 : 3), value));
    }

    private ByteBuffer metadataBatch(Group group, byte[] value) {
        MemoryRecordsBuilder builder = newBatch();
        builder.append(now, MessageUtil.toVersionPrefixedBytes((short) 2, new GroupMetadataKey().setGroup(group.id)), value);
        return finish(builder, 1);
    }

    private GroupMetadataValue.MemberMetadata member(Group group, int number, int size) {
        List<TopicPartition> owned = new ArrayList<>();
        for (int i = number; i < group.partitions.length / 4; i += size)
            owned.add(group.partitions[i]);
        List<String> topics = new ArrayList<>();
        for (Topic topic : group.topics)
            if (!topics.contains(topic.name()))
                topics.add(topic.name());
        boolean cooperative = group.protocol.equals("cooperative-sticky");
        ByteBuffer userData = cooperative ? ByteBuffer.allocate(4).putInt(0, group.generation - 1) : null;
        Subscription subscription = new Subscription(topics, userData, cooperative ? owned : List.of());
        String clientId = group.id + "-" + number;
        return new GroupMetadataValue.MemberMetadata()
            .setMemberId(clientId + "-" + new Uuid(random.nextLong(), random.nextLong()))
            .setGroupInstanceId(number == 3 ? clientId : null)
            .setClientId(clientId)
            .setClientHost("/10.1." + random.nextInt(256) + "." + random.nextInt(256))
            .setRebalanceTimeout(300_000)
            .setSessionTimeout(45_000)
            .setSubscription(bytes(ConsumerProtocol.serializeSubscription(subscription)))
            .setAssignment(bytes(ConsumerProtocol.serializeAssignment(new Assignment(owned))));
    }

    private static byte[] bytes(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return bytes;
    }

    private MemoryRecordsBuilder newBatch() {
        buffer.clear();
        return new MemoryRecordsBuilder(
            new ByteBufferOutputStream(buffer), RecordBatch.CURRENT_MAGIC_VALUE, compression,
            TimestampType.CREATE_TIME, nextOffset, RecordBatch.NO_TIMESTAMP, RecordBatch.NO_PRODUCER_ID,
            RecordBatch.NO_PRODUCER_EPOCH, RecordBatch.NO_SEQUENCE, false, false, LEADER_EPOCH, buffer.capacity());
    }

    private ByteBuffer finish(MemoryRecordsBuilder builder, int count) {
        nextOffset += count;
        records += count;
        return builder.build().buffer();
    }

    private static List<byte[][]> readRecorded(Path path) throws Exception {
        List<byte[][]> recorded = new ArrayList<>();
        ByteBuffer file = ByteBuffer.wrap(Files.readAllBytes(path));
        while (file.hasRemaining()) {
            byte[][] values = new byte[file.getInt()][];
            for (int i = 0; i < values.length; i++) {
                values[i] = new byte[file.getInt()];
                file.get(values[i]);
            }
            recorded.add(values);
        }
        return recorded;
    }

    public static void main(String[] args) throws Exception {
        List<byte[][]> recorded = args[5].equals("-") ? List.of() : readRecorded(Path.of(args[5]));
        long seed = args.length > 6 ? Long.parseLong(args[6]) : 0;
        int pace = args.length == 8 || args.length == 10 ? Integer.parseInt(args[args.length - 1]) : 4;
        WriteSegment writer = new WriteSegment(args[3], Integer.parseInt(args[4]), recorded, seed, pace);
        int mostCommits = Integer.parseInt(args[2]);
        writer.run(Path.of(args[0]), Long.parseLong(args[1]), mostCommits);
        System.out.println(writer.records);
        for (String size : args.length > 8 ? args[8].split(",") : new String[0]) {
            String name = String.format("%020d.log", writer.nextOffset);
            writer.run(Path.of(args[7], name), Long.parseLong(size), mostCommits);
        }
    }
}
