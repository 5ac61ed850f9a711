// The assignors of kafka-go, asked: specs of groups on standard input, one JSON object a line.
//
// Its own code encodes what members send, decodes it as the leader, assigns, and encodes what the
// leader sends. A line of output has the id and the `assignment`, or the `error`. With `-bytes` it
// has also what was sent, in hex. With `-runs N` each group is assigned N times, and `answers` are
// the different ones.
package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"sort"
	"strings"

	"github.com/segmentio/kafka-go"
)

type partition [2]any

type member struct {
	MemberID string   `json:"member_id"`
	Topics   []string `json:"topics"`
	Rack     string   `json:"rack"`
	// MoreBytes stand behind the subscription, as newer versions of the message have them.
	MoreBytes int `json:"more_bytes"`
}

type spec struct {
	ID       string `json:"id"`
	Strategy string `json:"strategy"`
	Topics   map[string]struct {
		Partitions  int       `json:"partitions"`
		LeaderRacks []*string `json:"leader_racks"`
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
		check(json.Unmarshal(lines.Bytes(), &group))
		if *runs == 0 {
			check(write.Encode(struct {
				ID string `json:"id"`
				answer
			}{group.ID, ask(group, *withBytes)}))
			continue
		}
		answers := map[string]json.RawMessage{}
		for i := 0; i < *runs; i++ {
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
	sent := answer{Subscriptions: map[string]string{}, Assignments: map[string]string{}}
	for _, each := range group.Members {
		raw, err := kafka.OracleSubscribe(group.Strategy, each.Topics, each.Rack)
		check(err)
		raw = append(raw, make([]byte, each.MoreBytes)...)
		ids, subscriptions = append(ids, each.MemberID), append(subscriptions, raw)
		sent.Subscriptions[each.MemberID] = hex.EncodeToString(raw)
	}
	assigned, err := kafka.OracleAssign(group.Strategy, ids, subscriptions, topics)
	if err != nil {
		name := fmt.Sprintf("%T", err)
		return answer{Error: &failure{name[strings.LastIndex(name, ".")+1:], err.Error()}}
	}
	result.Assignment = map[string][]partition{}
	for _, id := range ids {
		found, err := kafka.OracleReceive(assigned[id])
		check(err)
		result.Assignment[id] = listed(found)
		sent.Assignments[id] = hex.EncodeToString(assigned[id])
	}
	if withBytes {
		result.Subscriptions, result.Assignments = sent.Subscriptions, sent.Assignments
	}
	return result
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
		for _, number := range topics[name] {
			all = append(all, partition{name, number})
		}
	}
	return all
}
