// franz-go's balancers, asked: members' subscriptions and the leader's assignments are encoded and
// decoded by franz-go.
package main

import (
	"fmt"
	"runtime/debug"
	"slices"
	"sort"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

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

// goesByRack is a balancer of 1.21. Its group's leader is the first member.
type goesByRack interface {
	OracleRacks(topicsOfLeader []string, leaderRacks map[string][]*string, counts map[string]int32)
}

func (group spec) leaderRacks() map[string][]*string {
	racks := make(map[string][]*string)
	for name, topic := range group.Topics {
		racks[name] = topic.LeaderRacks
	}
	return racks
}

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

func ask(group spec, said *answer) *failure {
	balancer := balancers[group.Strategy]()
	members := joined(balancer, group.Members)
	for _, m := range members {
		said.Subscriptions[m.MemberID] = m.ProtocolMetadata
	}
	of, topics, err := balancer.MemberBalancer(members)
	check(err)
	counts := make(map[string]int32)
	for topic := range topics {
		if count := group.Topics[topic].Partitions; count > 0 {
			counts[topic] = count
		}
	}
	if of, goesByRack := of.(goesByRack); goesByRack {
		of.OracleRacks(group.Members[0].Topics, group.leaderRacks(), counts)
	}
	plan, err := of.(kgo.GroupMemberBalancerOrError).BalanceOrError(counts)
	check(err)
	for _, each := range plan.IntoSyncAssignment() {
		said.Assignments[each.MemberID] = each.MemberAssignment
		var decoded kmsg.ConsumerMemberAssignment
		check(decoded.ReadFrom(each.MemberAssignment))
		own := []partition{}
		for _, topic := range decoded.Topics {
			for _, number := range topic.Partitions {
				own = append(own, partition{topic.Topic, number})
			}
		}
		said.Assignment[each.MemberID] = own
	}
	return nil
}
