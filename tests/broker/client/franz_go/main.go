// A consumer of franz-go; ../member.py says what it is given and what it writes.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type member struct {
	Bootstrap, Group, Strategy string
	Topics                     []string
	ClientID                   *string `json:"client_id"`
	InstanceID                 *string `json:"instance_id"`
	Rack                       *string
	Refresh                    int `json:"refresh_ms"`
	Heartbeat                  int `json:"heartbeat_ms"`
}

var balancers = map[string]kgo.GroupBalancer{
	"range":              kgo.RangeBalancer(),
	"roundrobin":         kgo.RoundRobinBalancer(),
	"sticky":             kgo.StickyBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer(),
}

// owned keeps what the group has given us, and writes it when it changes.
type owned map[string]map[int32]bool

func (o owned) change(parts map[string][]int32, has bool) {
	for topic, partitions := range parts {
		if o[topic] == nil {
			o[topic] = map[int32]bool{}
		}
		for _, partition := range partitions {
			if has {
				o[topic][partition] = true
			} else {
				delete(o[topic], partition)
			}
		}
	}
	now := [][]any{}
	for topic, partitions := range o {
		for partition := range partitions {
			now = append(now, []any{topic, partition})
		}
	}
	sort.Slice(now, func(i, j int) bool { return fmt.Sprint(now[i]) < fmt.Sprint(now[j]) })
	json.NewEncoder(os.Stdout).Encode(map[string]any{"assignment": now})
}

func main() {
	var m member
	if err := json.Unmarshal([]byte(os.Args[1]), &m); err != nil {
		panic(err)
	}
	parts := owned{}
	chosen := []kgo.GroupBalancer{}
	for _, name := range strings.Split(m.Strategy, ",") {
		chosen = append(chosen, balancers[name])
	}
	gained := func(_ context.Context, _ *kgo.Client, p map[string][]int32) { parts.change(p, true) }
	lost := func(_ context.Context, _ *kgo.Client, p map[string][]int32) { parts.change(p, false) }
	options := []kgo.Opt{
		kgo.SeedBrokers(m.Bootstrap),
		kgo.ConsumerGroup(m.Group),
		kgo.ConsumeTopics(m.Topics...),
		kgo.Balancers(chosen...),
		kgo.HeartbeatInterval(time.Duration(m.Heartbeat) * time.Millisecond),
		kgo.MetadataMinAge(200 * time.Millisecond),
		kgo.MetadataMaxAge(time.Duration(m.Refresh) * time.Millisecond),
		kgo.OnPartitionsAssigned(gained),
		kgo.OnPartitionsRevoked(lost),
		kgo.OnPartitionsLost(lost),
	}
	if strings.HasPrefix(m.Topics[0], "^") {
		options = append(options, kgo.ConsumeRegex())
	}
	if m.ClientID != nil {
		options = append(options, kgo.ClientID(*m.ClientID))
	}
	if m.InstanceID != nil {
		options = append(options, kgo.InstanceID(*m.InstanceID))
	}
	if m.Rack != nil {
		options = append(options, kgo.Rack(*m.Rack))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	for ctx.Err() == nil {
		client.PollFetches(ctx)
	}
	client.Close()
}
