package kgroup;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.KRaftCoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberValue;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;
import org.apache.kafka.coordinator.group.modern.ModernGroup;
import org.apache.kafka.coordinator.group.modern.SubscribedTopicDescriberImpl;
import org.apache.kafka.coordinator.group.modern.SubscriptionCount;
import org.apache.kafka.coordinator.group.modern.TopicIds;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.metadata.LeaderRecoveryState;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * The assignors of Kafka's group coordinator: protocol "consumer" (strategies "uniform", "range") or "share"
 * ("simple"); see SpecOracle.
 */
public class ServerAssignorOracle extends SpecOracle {
    public static void main(String[] args) throws Exception {
        new ServerAssignorOracle().run(args);
    }

    @Override
    protected Assigning prepare(JsonNode spec) {
        Map<Uuid, String> names = new HashMap<>();
        Map<String, Uuid> ids = new HashMap<>();
        spec.get("topic_ids").fields().forEachRemaining(entry -> {
            names.put(Uuid.fromString(entry.getValue().asText()), entry.getKey());
            ids.put(entry.getKey(), Uuid.fromString(entry.getValue().asText()));
        });
        boolean isShare = spec.get("protocol").asText().equals("share");
        CoordinatorMetadataImage image = image(spec.get("topics"), ids);
        GroupSpecImpl group = group(spec, ids, image, isShare);
        PartitionAssignor assignor = assignor(spec.get("strategy").asText());
        return () -> {
            GroupAssignment assigned = assignor.assign(group, new SubscribedTopicDescriberImpl(image));
            return byMember -> {
                for (String member : group.memberIds()) {
                    ArrayNode partitions = byMember.putArray(member);
                    if (assigned.members().containsKey(member))
                        assigned.members().get(member).partitions().forEach((id, numbers) -> {
                            for (int number : numbers)
                                add(partitions, names.get(id), number);
                        });
                }
            };
        };
    }

    private static PartitionAssignor assignor(String strategy) {
        switch (strategy) {
            case "uniform": return new UniformAssignor();
            case "range": return new RangeAssignor();
            case "simple": return new SimpleAssignor();
            default: throw new IllegalArgumentException(strategy);
        }
    }

    private static CoordinatorMetadataImage image(JsonNode topics, Map<String, Uuid> ids) {
        MetadataDelta delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
        topics.fields().forEachRemaining(topic -> {
            Uuid id = ids.get(topic.getKey());
            delta.replay(new TopicRecord().setTopicId(id).setName(topic.getKey()));
            for (int p = 0; p < topic.getValue().get("partitions").asInt(); p++)
                delta.replay(new PartitionRecord().setTopicId(id).setPartitionId(p)
                    .setReplicas(List.of(0)).setIsr(List.of(0)).setLeader(0)
                    .setDirectories(List.of(Uuid.fromString("AAAAAAAAAAAAAAAAAAAAAw")))
                    .setLeaderRecoveryState(LeaderRecoveryState.RECOVERED.value()));
        });
        return new KRaftCoordinatorMetadataImage(delta.apply(MetadataProvenance.EMPTY));
    }

    private static GroupSpecImpl group(
        JsonNode spec, Map<String, Uuid> ids, CoordinatorMetadataImage image, boolean isShare
    ) {
        TopicIds.TopicResolver resolver = new TopicIds.CachedTopicResolver(image);
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> inverted = new HashMap<>();
        Map<String, SubscriptionCount> counts = new HashMap<>();
        for (JsonNode member : spec.get("members")) {
            String memberId = member.get("member_id").asText();
            Set<String> subscribed = new HashSet<>(topics(member));
            subscribed.forEach(topic ->
                counts.compute(topic, SubscriptionCount::incNameCount));
            Map<Uuid, List<Integer>> owned = new LinkedHashMap<>();
            owned(member, (topic, p) -> owned.computeIfAbsent(ids.get(topic), id -> new ArrayList<>()).add(p));
            ConsumerGroupTargetAssignmentMemberValue record = new ConsumerGroupTargetAssignmentMemberValue();
            owned.forEach((id, partitions) -> {
                record.topicPartitions().add(new ConsumerGroupTargetAssignmentMemberValue.TopicPartition()
                    .setTopicId(id).setPartitions(partitions));
                partitions.forEach(p -> inverted.computeIfAbsent(id, i -> new HashMap<>()).put(p, memberId));
            });
            members.put(memberId, new MemberSubscriptionAndAssignmentImpl(
                member.hasNonNull("rack") ? Optional.of(member.get("rack").asText()) : Optional.empty(),
                member.hasNonNull("instance_id") ? Optional.of(member.get("instance_id").asText()) : Optional.empty(),
                new TopicIds(subscribed, resolver),
                Assignment.fromRecord(record)));
        }
        Map<Uuid, Set<Integer>> ready = new HashMap<>();
        spec.get("topics").fields().forEachRemaining(topic -> {
            Set<Integer> partitions = new HashSet<>();
            for (int p = 0; p < topic.getValue().get("partitions").asInt(); p++)
                partitions.add(p);
            ready.put(ids.get(topic.getKey()), partitions);
        });
        return new GroupSpecImpl(Collections.unmodifiableMap(members),
            ModernGroup.subscriptionType(counts, members.size()), inverted,
            isShare ? Optional.of(ready) : Optional.empty());
    }
}
