// A consumer of segmentio's kafka-go; ../member.py says what it is given and what it writes.
package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"sort"
	"time"

	"github.com/segmentio/kafka-go"
)

type member struct {
	Bootstrap, Group, Strategy string
	Topics                     []string
	ClientID                   *string `json:"client_id"`
	Rack                       *string
}

func balancer(m member) kafka.GroupBalancer {
	switch m.Strategy {
	case "range":
		return kafka.RangeGroupBalancer{}
	case "roundrobin":
		return kafka.RoundRobinGroupBalancer{}
	}
	rack := ""
	if m.Rack != nil {
		rack = *m.Rack
	}
	return kafka.RackAffinityGroupBalancer{Rack: rack}
}

func write(claims map[string][]kafka.PartitionAssignment) {
	now := [][]any{}
	for topic, partitions := range claims {
		for _, partition := range partitions {
			now = append(now, []any{topic, partition.ID})
		}
	}
	sort.Slice(now, func(i, j int) bool {
		if now[i][0] != now[j][0] {
			return now[i][0].(string) < now[j][0].(string)
		}
		return now[i][1].(int) < now[j][1].(int)
	})
	json.NewEncoder(os.Stdout).Encode(map[string]any{"assignment": now})
}

func main() {
	var m member
	if err := json.Unmarshal([]byte(os.Args[1]), &m); err != nil {
		panic(err)
	}
	dialer := *kafka.DefaultDialer
	if m.ClientID != nil {
		dialer.ClientID = *m.ClientID
	}
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID:                     m.Group,
		Brokers:                []string{m.Bootstrap},
		Dialer:                 &dialer,
		Topics:                 m.Topics,
		GroupBalancers:         []kafka.GroupBalancer{balancer(m)},
		HeartbeatInterval:      200 * time.Millisecond,
		WatchPartitionChanges:  true,
		PartitionWatchInterval: 500 * time.Millisecond,
	})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	for ctx.Err() == nil {
		generation, err := group.Next(ctx)
		if err != nil {
			continue
		}
		write(generation.Assignments)
		generation.Start(func(ended context.Context) {
			<-ended.Done()
			write(nil)
		})
	}
	group.Close()
}
