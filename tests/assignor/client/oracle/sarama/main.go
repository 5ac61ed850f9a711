// The assignors of Sarama, asked: its own code encodes what members send (what they own comes from
// the assignment that a leader of it would have sent), decodes it as the leader, assigns, and encodes
// what the leader sends.
package main

import (
	"strings"

	"github.com/IBM/sarama"
)

// brokers know the topics; nothing else is asked of them.
type brokers struct {
	sarama.Client
	spec spec
}

func (b brokers) RefreshMetadata(topics ...string) error {
	for _, topic := range topics {
		if b.spec.Topics[topic].Partitions == 0 {
			return sarama.ErrUnknownTopicOrPartition
		}
	}
	return nil
}

func (b brokers) Partitions(topic string) ([]int32, error) {
	if err := b.RefreshMetadata(topic); err != nil {
		return nil, err
	}
	return upTo(b.spec.Topics[topic].Partitions), nil
}

func upTo(count int32) []int32 {
	all := make([]int32, count)
	for at := range all {
		all[at] = int32(at)
	}
	return all
}

func ask(group spec, said *answer) *failure {
	members := map[string]sarama.ConsumerGroupMemberMetadata{}
	generation := int32(0)
	for _, each := range group.Members {
		raw := subscribe(group.Strategy, each)
		said.Subscriptions[each.MemberID] = raw
		metadata, err := sarama.OracleDecode(raw)
		check(err)
		members[each.MemberID] = metadata
		if each.Generation != nil && *each.Generation >= generation {
			generation = *each.Generation + 1
		}
	}
	leader := strategy(group.Strategy)
	plan, err := sarama.OracleBalance(config(1), brokers{spec: group}, leader, members)
	if err != nil {
		reason := failed(err)
		reason.Message = strings.TrimSuffix(reason.Message, ".") // old versions end the sentence
		return reason
	}
	for _, each := range group.Members {
		topics, planned := plan[each.MemberID]
		raw := assign(leader, each.MemberID, topics, generation, planned)
		said.Assignments[each.MemberID] = raw
		said.Assignment[each.MemberID] = listed(received(raw).Topics)
	}
	return nil
}

func strategy(name string) sarama.BalanceStrategy {
	for _, each := range sarama.OracleStrategies() {
		if each.Name() == name {
			return each
		}
	}
	panic("no strategy " + name)
}

// config has the version of Kafka that makes members send that version of a subscription.
func config(version int) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = []sarama.KafkaVersion{sarama.V2_0_0_0, sarama.V2_6_0_0, sarama.MaxVersion}[version]
	return config
}

func subscribe(name string, each member) []byte {
	own := strategy(name)
	generation := int32(-1)
	var userData []byte
	var owned map[string][]int32
	if each.Generation != nil {
		generation = *each.Generation
	}
	if each.Owned != nil {
		owned = map[string][]int32{}
		for _, own := range each.Owned {
			owned[own.topic] = append(owned[own.topic], own.number)
		}
		assignment := received(assign(own, each.MemberID, owned, generation, true))
		userData = assignment.UserData
		sarama.OracleReceive(own, assignment, generation)
	}
	version := 2
	if each.ProtocolVersion != nil && *each.ProtocolVersion < version {
		version = *each.ProtocolVersion
	}
	if each.SubscriptionGeneration != nil {
		generation = *each.SubscriptionGeneration
	}
	if name != "cooperative-sticky" { // whose members alone hold anything while they join
		owned, generation = nil, -1
	}
	raw, err := sarama.OracleSubscribe(config(version), own, each.Topics, userData, owned, generation)
	check(err)
	return raw
}

// assign encodes what `syncGroupRequest` puts in a request.
func assign(
	leader sarama.BalanceStrategy, memberID string, topics map[string][]int32, generation int32, planned bool,
) []byte {
	var err error
	assignment := &sarama.ConsumerGroupMemberAssignment{}
	if planned {
		assignment.Topics = topics
		assignment.UserData, err = leader.AssignmentData(memberID, topics, generation)
		check(err)
	}
	raw, err := sarama.OracleEncode(assignment)
	check(err)
	return raw
}

func received(raw []byte) *sarama.ConsumerGroupMemberAssignment {
	assignment, err := (&sarama.SyncGroupResponse{MemberAssignment: raw}).GetMemberAssignment()
	check(err)
	return assignment
}
