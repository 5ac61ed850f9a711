// The assignors of kafka-go, asked: its own code encodes what members send, decodes it as the leader,
// assigns, and encodes what the leader sends.
package main

import "github.com/segmentio/kafka-go"

func ask(group spec, said *answer) *failure {
	topics := map[string]kafka.OracleTopic{}
	for name, topic := range group.Topics {
		racks := make([]string, topic.Partitions)
		for at, rack := range topic.LeaderRacks {
			if rack != nil {
				racks[at] = *rack
			}
		}
		topics[name] = kafka.OracleTopic{LeaderRacks: racks}
	}
	var ids []string
	var subscriptions [][]byte
	for _, each := range group.Members {
		raw, err := kafka.OracleSubscribe(group.Strategy, each.Topics, each.Rack)
		check(err)
		raw = append(raw, make([]byte, each.MoreBytes)...)
		ids, subscriptions = append(ids, each.MemberID), append(subscriptions, raw)
		said.Subscriptions[each.MemberID] = raw
	}
	assigned, err := kafka.OracleAssign(group.Strategy, ids, subscriptions, topics)
	if err != nil {
		return failed(err)
	}
	for _, id := range ids {
		found, err := kafka.OracleReceive(assigned[id])
		check(err)
		said.Assignment[id] = listed(found)
	}
	said.Assignments = assigned
	return nil
}
