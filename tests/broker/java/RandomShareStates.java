package kgroup;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.message.DeleteShareGroupStateRequestData;
import org.apache.kafka.common.message.InitializeShareGroupStateRequestData;
import org.apache.kafka.common.message.ReadShareGroupStateRequestData;
import org.apache.kafka.common.message.ReadShareGroupStateSummaryRequestData;
import org.apache.kafka.common.message.ReadShareGroupStateSummaryResponseData;
import org.apache.kafka.common.message.WriteShareGroupStateRequestData;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.share.ShareCoordinatorConfig;
import org.apache.kafka.coordinator.share.ShareCoordinatorRecordSerde;
import org.apache.kafka.coordinator.share.ShareCoordinatorShard;
import org.apache.kafka.coordinator.share.metrics.ShareCoordinatorMetrics;
import org.apache.kafka.timeline.SnapshotRegistry;

import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;

/**
 * A share coordinator of Kafka under random requests: what it records, and what it answers then.
 *
 * Arguments: seed, number of requests.
 * Prints a JSON object a line: first those with key and value (hex, or null) of each record, in
 * order; then for each partition that was asked for groupId, topicId, partition, startOffset,
 * deliveryCompleteCount, leaderEpoch and stateEpoch, as ReadShareGroupStateSummary answers.
 */
public class RandomShareStates {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Uuid[] TOPICS = {new Uuid(1, 2), new Uuid(3, 4)};

    private final Random random;
    private final ShareCoordinatorShard shard;
    private final ShareCoordinatorRecordSerde serde = new ShareCoordinatorRecordSerde();
    private long offset = 0;

    private RandomShareStates(long seed) {
        random = new Random(seed);
        LogContext context = new LogContext();
        SnapshotRegistry registry = new SnapshotRegistry(context);
        ShareCoordinatorConfig config = new ShareCoordinatorConfig(new AbstractConfig(
            ShareCoordinatorConfig.CONFIG_DEF,
            Map.of(ShareCoordinatorConfig.SNAPSHOT_UPDATE_RECORDS_PER_SNAPSHOT_CONFIG, 4),
            false));
        shard = new ShareCoordinatorShard.Builder(config)
            .withLogContext(context)
            .withSnapshotRegistry(registry)
            .withTime(Time.SYSTEM)
            .withCoordinatorMetrics(new ShareCoordinatorMetrics())
            .withTopicPartition(new TopicPartition("__share_group_state", 0))
            .build();
        shard.onLoaded(new EveryTopic());
    }

    public static void main(String[] args) throws Exception {
        RandomShareStates states = new RandomShareStates(Long.parseLong(args[0]));
        for (int i = Integer.parseInt(args[1]); i > 0; i--) {
            states.request("group-" + states.random.nextInt(2), TOPICS[states.random.nextInt(2)],
                states.random.nextInt(3));
        }
        for (int group = 0; group < 2; group++) {
            for (Uuid topic : TOPICS) {
                for (int partition = 0; partition < 3; partition++) {
                    states.printSummary("group-" + group, topic, partition);
                }
            }
        }
        System.out.flush();
    }

    private void request(String group, Uuid topic, int partition) throws Exception {
        List<CoordinatorRecord> records;
        int leaderEpoch = random.nextInt(8) - 1;
        int stateEpoch = random.nextInt(8) - 1;
        long startOffset = random.nextInt(3) == 0 ? -1 : random.nextInt(1000);
        switch (random.nextInt(12)) {
            case 0:
                records = shard.deleteState(new DeleteShareGroupStateRequestData()
                    .setGroupId(group)
                    .setTopics(List.of(new DeleteShareGroupStateRequestData.DeleteStateData()
                        .setTopicId(topic)
                        .setPartitions(List.of(
                            new DeleteShareGroupStateRequestData.PartitionData()
                                .setPartition(partition)))))).records();
                break;
            case 1:
            case 2:
                records = shard.initializeState(new InitializeShareGroupStateRequestData()
                    .setGroupId(group)
                    .setTopics(List.of(
                        new InitializeShareGroupStateRequestData.InitializeStateData()
                            .setTopicId(topic)
                            .setPartitions(List.of(
                                new InitializeShareGroupStateRequestData.PartitionData()
                                    .setPartition(partition)
                                    .setStateEpoch(Math.max(0, stateEpoch))
                                    .setStartOffset(startOffset)))))).records();
                break;
            case 3:
                records = shard.readStateAndMaybeUpdateLeaderEpoch(
                    new ReadShareGroupStateRequestData()
                        .setGroupId(group)
                        .setTopics(List.of(new ReadShareGroupStateRequestData.ReadStateData()
                            .setTopicId(topic)
                            .setPartitions(List.of(
                                new ReadShareGroupStateRequestData.PartitionData()
                                    .setPartition(partition)
                                    .setLeaderEpoch(leaderEpoch)))))).records();
                break;
            default:
                records = shard.writeState(new WriteShareGroupStateRequestData()
                    .setGroupId(group)
                    .setTopics(List.of(new WriteShareGroupStateRequestData.WriteStateData()
                        .setTopicId(topic)
                        .setPartitions(List.of(
                            new WriteShareGroupStateRequestData.PartitionData()
                                .setPartition(partition)
                                .setStateEpoch(-1)
                                .setLeaderEpoch(-1)
                                .setStartOffset(startOffset)
                                .setDeliveryCompleteCount(
                                    random.nextInt(3) == 0 ? -1 : random.nextInt(20))
                                .setStateBatches(List.of(
                                    new WriteShareGroupStateRequestData.StateBatch()
                                        .setFirstOffset(Math.max(0, startOffset))
                                        .setLastOffset(Math.max(0, startOffset) + 5)
                                        .setDeliveryState((byte) 2)
                                        .setDeliveryCount((short) 1)))))))).records();
        }
        for (CoordinatorRecord record : records) {
            byte[] value = serde.serializeValue(record);
            ObjectNode line = JSON.createObjectNode();
            line.put("key", HexFormat.of().formatHex(serde.serializeKey(record)));
            line.put("value", value == null ? null : HexFormat.of().formatHex(value));
            print(line);
            shard.replay(offset++, -1, (short) -1, record);
        }
    }

    private void printSummary(String group, Uuid topic, int partition) throws Exception {
        ReadShareGroupStateSummaryResponseData.PartitionResult answer = shard.readStateSummary(
            new ReadShareGroupStateSummaryRequestData()
                .setGroupId(group)
                .setTopics(List.of(new ReadShareGroupStateSummaryRequestData.ReadStateSummaryData()
                    .setTopicId(topic)
                    .setPartitions(List.of(
                        new ReadShareGroupStateSummaryRequestData.PartitionData()
                            .setPartition(partition))))))
            .response().results().get(0).partitions().get(0);
        ObjectNode line = JSON.createObjectNode();
        line.put("groupId", group);
        line.put("topicId", topic.toString());
        line.put("partition", partition);
        line.put("errorCode", answer.errorCode());
        line.put("startOffset", answer.startOffset());
        line.put("deliveryCompleteCount", answer.deliveryCompleteCount());
        line.put("leaderEpoch", answer.leaderEpoch());
        line.put("stateEpoch", answer.stateEpoch());
        print(line);
    }

    private static void print(ObjectNode line) throws Exception {
        System.out.write((line + "\n").getBytes(StandardCharsets.UTF_8));
    }

    /** A cluster in which every topic exists, with ten partitions. */
    private static class EveryTopic implements CoordinatorMetadataImage {
        @Override
        public Set<Uuid> topicIds() {
            return Set.of(TOPICS);
        }

        @Override
        public Set<String> topicNames() {
            return Set.of();
        }

        @Override
        public Optional<TopicMetadata> topicMetadata(String name) {
            return Optional.empty();
        }

        @Override
        public Optional<TopicMetadata> topicMetadata(Uuid id) {
            return Optional.of(new TopicMetadata() {
                @Override
                public String name() {
                    return id.toString();
                }

                @Override
                public Uuid id() {
                    return id;
                }

                @Override
                public int partitionCount() {
                    return 10;
                }

                @Override
                public List<String> partitionRacks(int partition) {
                    return List.of();
                }
            });
        }

        @Override
        public CoordinatorMetadataDelta emptyDelta() {
            return CoordinatorMetadataDelta.EMPTY;
        }

        @Override
        public long version() {
            return 0;
        }

        @Override
        public boolean isEmpty() {
            return false;
        }
    }
}
