// Asks franz-go's balancers what they assign: reads groups as JSON lines, as `kgroup assign --spec`
// takes them, and writes for each {"id", "assignment": {member: [[topic, partition], ...]}}, or
// {"id", "error": {"type", "message"}}. Members' subscriptions and the leader's assignments are
// encoded and decoded by franz-go.
//
//	-times N  asks N times, and writes all different assignments: {"id", "assignments": [...]}
//	-raw      adds the bytes: "subscriptions" and "assignments" by member, in base64
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"sort"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type partition struct {
	topic  string
	number int32
}

func (p *partition) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&p.topic, &p.number})
}

func (p partition) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{p.topic, p.number})
}

type member struct {
	MemberID               string      `json:"member_id"`
	InstanceID             *string     `json:"instance_id"`
	Topics                 []string    `json:"topics"`
	Rack                   string      `json:"rack"`
	Owned                  []partition `json:"owned"`
	Generation             *int32      `json:"generation"`
	SubscriptionGeneration *int32      `json:"subscription_generation"`
	UserData               []byte      `json:"user_data"`
}

type group struct {
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
	ID            string                   `json:"id"`
	Assignment    map[string][]partition   `json:"assignment,omitempty"`
	Assignments   []map[string][]partition `json:"assignments,omitempty"`
	Error         *failure                 `json:"error,omitempty"`
	Subscriptions map[string][]byte        `json:"subscriptions,omitempty"`
	Sent          map[string][]byte        `json:"sent,omitempty"`
}

var balancers = map[string]func() kgo.GroupBalancer{
	"range":              kgo.RangeBalancer,
	"roundrobin":         kgo.RoundRobinBalancer,
	"sticky":             kgo.StickyBalancer,
	"cooperative-sticky": kgo.CooperativeStickyBalancer,
}

// subscription encodes what a member sends, as groupConsumer.joinGroupProtocols has it done: a
// member that is not cooperative has given up and forgotten what it owned (groupConsumer.revoke).
func subscription(balancer kgo.GroupBalancer, m member) []byte {
	topics := slices.Clone(m.Topics)
	slices.Sort(topics)
	current := make(map[string][]int32)
	if balancer.IsCooperative() {
		for _, each := range m.Owned {
			current[each.topic] = append(current[each.topic], each.number)
		}
		for _, numbers := range current {
			slices.Sort(numbers)
		}
	}
	generation := int32(-1)
	if m.Generation != nil {
		generation = *m.Generation
	}
	raw := balancer.JoinGroupMetadata(topics, current, generation)
	var meta kmsg.ConsumerMemberMetadata
	check(meta.ReadFrom(raw))
	if m.SubscriptionGeneration != nil {
		meta.Generation = *m.SubscriptionGeneration
	}
	if m.UserData != nil {
		meta.UserData = m.UserData
	}
	if m.Rack != "" && sendsRacks {
		meta.Rack = &m.Rack
	}
	if again := meta.AppendTo(nil); m.SubscriptionGeneration != nil || m.UserData != nil || meta.Rack != nil {
		return again
	} else if !slices.Equal(raw, again) {
		panic("a subscription is not the same when it is encoded again")
	}
	return raw
}

// sendsRacks tells whether this version has a member's rack in its subscription.
var sendsRacks = func() bool {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "github.com/twmb/franz-go" {
			var major, minor int
			_, err := fmt.Sscanf(module.Version, "v%d.%d.", &major, &minor)
			check(err)
			return minor >= 21
		}
	}
	panic("built without franz-go")
}()

func joined(balancer kgo.GroupBalancer, members []member) []kmsg.JoinGroupResponseMember {
	all := make([]kmsg.JoinGroupResponseMember, 0, len(members))
	for _, m := range members {
		each := kmsg.NewJoinGroupResponseMember()
		each.MemberID = m.MemberID
		each.InstanceID = m.InstanceID
		each.ProtocolMetadata = subscription(balancer, m)
		all = append(all, each)
	}
	// as groupConsumer.balanceGroup does before it asks the balancer
	sort.Slice(all, func(i, j int) bool {
		l, r := all[i], all[j]
		switch {
		case l.InstanceID != nil && r.InstanceID != nil:
			return *l.InstanceID < *r.InstanceID
		case l.InstanceID != nil || r.InstanceID != nil:
			return l.InstanceID != nil
		}
		return l.MemberID < r.MemberID
	})
	return all
}

func balance(g group, raw bool, said *answer) (assignment map[string][]partition, fails *failure) {
	defer func() {
		if reason := recover(); reason != nil {
			fails = &failure{"panic", fmt.Sprint(reason)}
		}
	}()
	balancer := balancers[g.Strategy]()
	members := joined(balancer, g.Members)
	if raw {
		said.Subscriptions, said.Sent = make(map[string][]byte), make(map[string][]byte)
		for _, m := range members {
			said.Subscriptions[m.MemberID] = m.ProtocolMetadata
		}
	}
	of, topics, err := balancer.MemberBalancer(members)
	check(err)
	counts := make(map[string]int32)
	for topic := range topics {
		if count := g.Topics[topic].Partitions; count > 0 {
			counts[topic] = count
		}
	}
	plan, err := of.(kgo.GroupMemberBalancerOrError).BalanceOrError(counts)
	check(err)
	assignment = make(map[string][]partition)
	for _, each := range plan.IntoSyncAssignment() {
		if raw {
			said.Sent[each.MemberID] = each.MemberAssignment
		}
		var decoded kmsg.ConsumerMemberAssignment
		check(decoded.ReadFrom(each.MemberAssignment))
		own := []partition{}
		for _, topic := range decoded.Topics {
			for _, number := range topic.Partitions {
				own = append(own, partition{topic.Topic, number})
			}
		}
		assignment[each.MemberID] = own
	}
	return assignment, nil
}

func main() {
	times := flag.Int("times", 1, "")
	raw := flag.Bool("raw", false, "")
	flag.Parse()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<28)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for lines.Scan() {
		var g group
		check(json.Unmarshal(lines.Bytes(), &g))
		said := answer{ID: g.ID}
		distinct := make(map[string]bool)
		for range *times {
			assignment, fails := balance(g, *raw, &said)
			if fails != nil {
				said.Error = fails
				continue
			}
			text, err := json.Marshal(assignment)
			check(err)
			if !distinct[string(text)] {
				distinct[string(text)] = true
				said.Assignments = append(said.Assignments, assignment)
			}
		}
		if *times == 1 {
			if said.Error == nil {
				said.Assignment = said.Assignments[0]
			}
			said.Assignments = nil
		}
		var text strings.Builder
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false)
		check(encoder.Encode(said))
		_, err := out.WriteString(text.String())
		check(err)
	}
	check(lines.Err())
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
