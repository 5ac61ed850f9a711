// A consumer of segmentio's kafka-go; ../member.py says what it is given and what it writes.
package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
)

type member struct {
	Bootstrap, Group, Strategy string
	Topics                     []string
	ClientID                   *string `json:"client_id"`
	Rack                       *string
	Refresh                    int `json:"refresh_ms"`
	Heartbeat                  int `json:"heartbeat_ms"`
}

func balancer(m member, name string) kafka.GroupBalancer {
	switch name {
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
	chosen := []kafka.GroupBalancer{}
	for _, name := range strings.Split(m.Strategy, ",") {
		chosen = append(chosen, balancer(m, name))
	}
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID:                     m.Group,
		Brokers:                []string{m.Bootstrap},
		Dialer:                 &dialer,
		Topics:                 m.Topics,
		GroupBalancers:         chosen,
		HeartbeatInterval:      time.Duration(m.Heartbeat) * time.Millisecond,
		WatchPartitionChanges:  true,
		PartitionWatchInterval: time.Duration(m.Refresh) * time.Millisecond,
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
