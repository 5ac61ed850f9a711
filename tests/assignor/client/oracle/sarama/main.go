// The assignors of Sarama, asked: specs of groups on standard input, one JSON object a line.
//
// Its own code encodes what members send (what they own comes from the assignment that a leader
// of it would have sent), decodes it as the leader, assigns, and encodes what the leader sends.
// A line of output has the id and the `assignment`, or the `error`. With `-bytes` it has also what
// was sent, in hex. With `-runs N` each group is assigned N times, and `answers` are the different ones.
package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"slices"
	"sort"
	"strings"

	"github.com/IBM/sarama"
)

type partition [2]any

type member struct {
	MemberID               string      `json:"member_id"`
	Topics                 []string    `json:"topics"`
	Owned                  []partition `json:"owned"`
	Generation             *int32      `json:"generation"`
	SubscriptionGeneration *int32      `json:"subscription_generation"`
	ProtocolVersion        *int        `json:"protocol_version"`
}

type spec struct {
	ID       string `json:"id"`
	Strategy string `json:"strategy"`
	Topics   map[string]struct {
		Partitions int32 `json:"partitions"`
	} `json:"topics"`
	Members []member `json:"members"`
}

type failure struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

type answer struct {
	Assignment    map[string][]partition `json:"assignment,omitempty"`
	Error         *failure               `json:"error,omitempty"`
	Subscriptions map[string]string      `json:"subscriptions,omitempty"`
	Assignments   map[string]string      `json:"assignments,omitempty"`
}

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

func main() {
	withBytes := flag.Bool("bytes", false, "give what is sent, too")
	runs := flag.Int("runs", 0, "assign so often")
	flag.Parse()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<28)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	write := json.NewEncoder(out)
	write.SetEscapeHTML(false)
	for lines.Scan() {
		var group spec
		if err := json.Unmarshal(lines.Bytes(), &group); err != nil {
			log.Fatal(err)
		}
		if *runs == 0 {
			check(write.Encode(struct {
				ID string `json:"id"`
				answer
			}{group.ID, ask(group, *withBytes)}))
			continue
		}
		answers := map[string]json.RawMessage{}
		for range *runs {
			text, err := json.Marshal(ask(group, false))
			check(err)
			answers[string(text)] = text
		}
		different := []json.RawMessage{}
		for _, each := range answers {
			different = append(different, each)
		}
		check(write.Encode(struct {
			ID      string            `json:"id"`
			Answers []json.RawMessage `json:"answers"`
		}{group.ID, different}))
	}
	check(lines.Err())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func ask(group spec, withBytes bool) (result answer) {
	defer func() {
		if what := recover(); what != nil {
			result = answer{Error: &failure{"panic", fmt.Sprint(what)}}
		}
	}()
	result.Subscriptions, result.Assignments = map[string]string{}, map[string]string{}
	members := map[string]sarama.ConsumerGroupMemberMetadata{}
	generation := int32(0)
	for _, each := range group.Members {
		raw := subscribe(group.Strategy, each)
		result.Subscriptions[each.MemberID] = hex.EncodeToString(raw)
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
		name := fmt.Sprintf("%T", err)
		// old versions end the sentence
		return answer{Error: &failure{name[strings.LastIndex(name, ".")+1:], strings.TrimSuffix(err.Error(), ".")}}
	}
	result.Assignment = map[string][]partition{}
	for _, each := range group.Members {
		topics, planned := plan[each.MemberID]
		raw := assign(leader, each.MemberID, topics, generation, planned)
		result.Assignments[each.MemberID] = hex.EncodeToString(raw)
		result.Assignment[each.MemberID] = listed(received(raw).Topics)
	}
	if !withBytes {
		result.Subscriptions, result.Assignments = nil, nil
	}
	return result
}

func strategy(name string) sarama.BalanceStrategy {
	for _, each := range sarama.OracleStrategies() {
		if each.Name() == name {
			return each
		}
	}
	log.Fatalf("no strategy %s", name)
	return nil
}

// config has the version of Kafka that makes members send that version of a subscription.
func config(version int) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = []sarama.KafkaVersion{sarama.V2_0_0_0, sarama.V2_8_0_0, sarama.MaxVersion}[version]
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
		for _, pair := range each.Owned {
			topic := pair[0].(string)
			owned[topic] = append(owned[topic], int32(pair[1].(float64)))
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

// listed gives partitions by topic: messages have the topics in a random order.
func listed(topics map[string][]int32) []partition {
	names := make([]string, 0, len(topics))
	for name := range topics {
		names = append(names, name)
	}
	sort.Strings(names)
	all := []partition{}
	for _, name := range names {
		for _, number := range slices.Clone(topics[name]) {
			all = append(all, partition{name, number})
		}
	}
	return all
}
