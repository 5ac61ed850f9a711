// A consumer of Sarama; ../member.py says what it is given and what it writes.
package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

type member struct {
	Bootstrap, Group, Strategy string
	Topics                     []string
	ClientID                   *string `json:"client_id"`
	InstanceID                 *string `json:"instance_id"`
	Rack                       *string
	ProtocolVersion            *string `json:"protocol_version"`
	Refresh                    int     `json:"refresh_ms"`
	Heartbeat                  int     `json:"heartbeat_ms"`
}

var strategies = map[string]func() sarama.BalanceStrategy{
	"range":      sarama.NewBalanceStrategyRange,
	"roundrobin": sarama.NewBalanceStrategyRoundRobin,
	"sticky":     sarama.NewBalanceStrategySticky,
}

type handler struct{}

func write(claims map[string][]int32) {
	now := [][]any{}
	for topic, partitions := range claims {
		for _, partition := range partitions {
			now = append(now, []any{topic, partition})
		}
	}
	sort.Slice(now, func(i, j int) bool {
		if now[i][0] != now[j][0] {
			return now[i][0].(string) < now[j][0].(string)
		}
		return now[i][1].(int32) < now[j][1].(int32)
	})
	json.NewEncoder(os.Stdout).Encode(map[string]any{"assignment": now})
}

func (handler) Setup(session sarama.ConsumerGroupSession) error {
	write(session.Claims())
	return nil
}

func (handler) Cleanup(sarama.ConsumerGroupSession) error {
	write(nil)
	return nil
}

func (handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for range claim.Messages() {
	}
	return nil
}

func main() {
	var m member
	if err := json.Unmarshal([]byte(os.Args[1]), &m); err != nil {
		panic(err)
	}
	config := sarama.NewConfig()
	if m.ProtocolVersion != nil {
		version, err := sarama.ParseKafkaVersion(*m.ProtocolVersion)
		if err != nil {
			panic(err)
		}
		config.Version = version
	}
	chosen := []sarama.BalanceStrategy{}
	for _, name := range strings.Split(m.Strategy, ",") {
		chosen = append(chosen, strategies[name]())
	}
	config.Consumer.Group.Rebalance.GroupStrategies = chosen
	config.Consumer.Group.Heartbeat.Interval = time.Duration(m.Heartbeat) * time.Millisecond
	config.Metadata.RefreshFrequency = time.Duration(m.Refresh) * time.Millisecond
	if m.ClientID != nil {
		config.ClientID = *m.ClientID
	}
	if m.InstanceID != nil {
		config.Consumer.Group.InstanceId = *m.InstanceID
	}
	if m.Rack != nil {
		config.RackID = *m.Rack
	}
	group, err := sarama.NewConsumerGroup([]string{m.Bootstrap}, m.Group, config)
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	for ctx.Err() == nil {
		if err := group.Consume(ctx, m.Topics, handler{}); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			time.Sleep(100 * time.Millisecond)
		}
	}
	group.Close()
}
