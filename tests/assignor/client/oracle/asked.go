// What the programs of this folder share: they read groups as `kgroup assign --spec` takes them, one
// JSON object a line, and write for each its id and the `assignment`, or the `error`.
//
//	-bytes   adds what members and the leader send, in base64
//	-runs N  assigns each group N times; `answers` are the different ones
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sort"
	"strings"
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
	ProtocolVersion        *int        `json:"protocol_version"`
	UserData               []byte      `json:"user_data"`
	// MoreBytes stand behind the subscription, as newer versions of the message have them.
	MoreBytes int `json:"more_bytes"`
}

type spec struct {
	ID       string `json:"id"`
	Strategy string `json:"strategy"`
	Topics   map[string]struct {
		Partitions  int32     `json:"partitions"`
		LeaderRacks []*string `json:"leader_racks"`
	} `json:"topics"`
	Members []member `json:"members"`
}

type failure struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

type answer struct {
	ID            string                 `json:"id"`
	Assignment    map[string][]partition `json:"assignment,omitempty"`
	Error         *failure               `json:"error,omitempty"`
	Subscriptions map[string][]byte      `json:"subscriptions,omitempty"`
	Assignments   map[string][]byte      `json:"assignments,omitempty"`
}

func main() {
	withBytes := flag.Bool("bytes", false, "")
	runs := flag.Int("runs", 0, "")
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
			check(write.Encode(answered(group, *withBytes)))
			continue
		}
		distinct := map[string]bool{}
		different := []json.RawMessage{}
		for range *runs {
			text, err := json.Marshal(answered(group, false))
			check(err)
			if !distinct[string(text)] {
				distinct[string(text)] = true
				different = append(different, text)
			}
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
		panic(err)
	}
}

// answered asks a library; each program has its own `ask`.
func answered(group spec, withBytes bool) (result answer) {
	defer func() {
		if what := recover(); what != nil {
			result = answer{Error: &failure{"panic", fmt.Sprint(what)}}
		}
		if !withBytes {
			result.Subscriptions, result.Assignments = nil, nil
		}
		result.ID = group.ID
	}()
	result = answer{
		Assignment:    map[string][]partition{},
		Subscriptions: map[string][]byte{},
		Assignments:   map[string][]byte{},
	}
	result.Error = ask(group, &result)
	if result.Error != nil {
		result.Assignment = nil
	}
	return result
}

// failed names the type of an error.
func failed(err error) *failure {
	name := fmt.Sprintf("%T", err)
	return &failure{name[strings.LastIndex(name, ".")+1:], err.Error()}
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
