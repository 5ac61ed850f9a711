// A cluster of franz-go's kfake, which shows no topic __consumer_offsets, with groups of all types.
// Writes one JSON line when they are stable: what franz-go knows. Ends with its standard input.
package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	topic      = "orders"
	partitions = 4
	patience   = 60 * time.Second
)

type member struct {
	ID       string             `json:"member_id"`
	Instance *string            `json:"instance_id"`
	Client   string             `json:"client_id"`
	Host     string             `json:"host"`
	Assigned map[string][]int32 `json:"assigned"`
}

type group struct {
	Coordinator int32           `json:"coordinator"`
	Type        string          `json:"type"`
	State       string          `json:"state"`
	Members     []member        `json:"members"`
	Committed   map[int32]int64 `json:"committed"`
}

type cluster struct {
	Bootstrap []string         `json:"bootstrap"`
	Ends      map[int32]int64  `json:"log_end_offsets"`
	Groups    map[string]group `json:"groups"`
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	ctx, stop := context.WithCancel(context.Background())
	fake := must(kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(partitions, topic)))
	seeds := kgo.SeedBrokers(fake.ListenAddrs()...)
	client := must(kgo.NewClient(seeds, kgo.RecordPartitioner(kgo.ManualPartitioner())))
	for partition := range int32(partitions) {
		for range 10 + partition {
			record := kgo.Record{Topic: topic, Partition: partition, Value: []byte("x")}
			must(0, client.ProduceSync(ctx, &record).FirstErr())
		}
	}
	join := func(id string, how ...kgo.Opt) *kgo.Client {
		options := append(how, seeds, kgo.ClientID(id), kgo.ConsumeTopics(topic))
		joined := must(kgo.NewClient(options...))
		go func() {
			for ctx.Err() == nil {
				joined.PollFetches(ctx)
			}
		}()
		return joined
	}
	quick := kgo.HeartbeatInterval(200 * time.Millisecond)
	classic := kgo.ConsumerGroup("classic")
	first := join("one", classic, quick, kgo.DisableAutoCommit())
	members := []*kgo.Client{
		first,
		join("two", classic, quick, kgo.DisableAutoCommit(), kgo.InstanceID("instance-2")),
		join("three", kgo.ConsumerGroup("consumer"), kgo.ServerSideBalancer(), kgo.DisableAutoCommit()),
		join("four", kgo.ShareGroup("share")),
	}
	admin := kadm.NewClient(client)
	told := cluster{Bootstrap: fake.ListenAddrs(), Ends: map[int32]int64{}}
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		told.Groups = read(ctx, admin)
		if len(told.Groups) == 3 && all(told.Groups) {
			break
		}
		if time.Now().After(deadline) {
			panic("the groups are not stable")
		}
	}
	first.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{topic: {0: {Epoch: -1, Offset: 4}, 1: {Epoch: -1, Offset: 11}}}, nil)
	away := kadm.Offsets{}
	for partition, offset := range map[int32]int64{0: 4, 1: 11, 3: 0} {
		away.Add(kadm.Offset{Topic: topic, Partition: partition, At: offset, LeaderEpoch: -1, Metadata: "by hand"})
	}
	must(0, admin.CommitAllOffsets(ctx, "away", away))
	told.Groups = read(ctx, admin)
	must(admin.ListEndOffsets(ctx, topic)).Each(func(end kadm.ListedOffset) { told.Ends[end.Partition] = end.Offset })
	json.NewEncoder(os.Stdout).Encode(told)
	io.Copy(io.Discard, os.Stdin)
	stop()
	for _, each := range members {
		each.Close()
	}
	fake.Close()
}

// all tells whether the members of every group have all partitions.
func all(groups map[string]group) bool {
	for _, each := range groups {
		count := 0
		for _, member := range each.Members {
			count += len(member.Assigned[topic])
		}
		if each.State != "Stable" || count != partitions {
			return false
		}
	}
	return true
}

func read(ctx context.Context, admin *kadm.Client) map[string]group {
	groups := map[string]group{}
	for id, listed := range must(admin.ListGroups(ctx)) {
		told := group{listed.Coordinator, listed.GroupType, listed.State, []member{}, map[int32]int64{}}
		switch listed.GroupType {
		case "classic":
			for _, each := range must(admin.DescribeGroups(ctx, id))[id].Members {
				assigned := map[string][]int32{}
				if plain, ok := each.Assigned.AsConsumer(); ok {
					for _, in := range plain.Topics {
						assigned[in.Topic] = in.Partitions
					}
				}
				told.Members = append(told.Members, member{each.MemberID, each.InstanceID, each.ClientID, each.ClientHost, assigned})
			}
		case "consumer":
			for _, each := range must(admin.DescribeConsumerGroups(ctx, id))[id].Members {
				told.Members = append(told.Members, member{each.MemberID, each.InstanceID, each.ClientID, each.ClientHost, byTopic(each.Assignment)})
			}
		case "share":
			for _, each := range must(admin.DescribeShareGroups(ctx, id))[id].Members {
				told.Members = append(told.Members, member{each.MemberID, nil, each.ClientID, each.ClientHost, byTopic(each.Assignment)})
			}
		}
		if listed.GroupType != "share" {
			must(admin.FetchOffsets(ctx, id)).Each(func(offset kadm.OffsetResponse) { told.Committed[offset.Partition] = offset.At })
		}
		groups[id] = told
	}
	return groups
}

// byTopic gives partitions by topic; kfake names those of groups of the consumer protocol by id only.
func byTopic(topics kadm.TopicsSet) map[string][]int32 {
	of := map[string][]int32{}
	for _, each := range topics.Sorted() {
		if each.Topic == "" {
			each.Topic = topic
		}
		of[each.Topic] = each.Partitions
	}
	return of
}
