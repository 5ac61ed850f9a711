"""Asks franz-go's own balancers, in a Go program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.assignor.client.answers import Model
from tests.assignor.client.oracle.go_oracle import GoLibrary, use_newer_go

_IN_ORDER = """package sticky

import "slices"

func topicsAsPutIn(members []GroupMember, topics map[string]int32) []string {
	names := make([]string, 0, len(topics))
	for _, member := range members {
		for _, name := range member.Topics {
			if _, exists := topics[name]; exists && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

func stalesAsPutIn(stales map[int32]uint16) []int32 {
	partitions := make([]int32, 0, len(stales))
	for partition := range stales {
		partitions = append(partitions, partition)
	}
	slices.Sort(partitions)
	return partitions
}
"""
_LOOPS = {
    "for topic, partitions := range topics {": (
        "for _, topic := range topicsAsPutIn(members, topics) {\npartitions := topics[topic]"
    ),
    "for staleNum, lastOwnerNum := range b.stales {": (
        "for _, staleNum := range stalesAsPutIn(b.stales) {\nlastOwnerNum := b.stales[staleNum]"
    ),
}


def _as_put_in(package: Path) -> None:
    """Let the sticky balancer walk over maps in the order in which they were filled."""
    source = package / "pkg/kgo/internal/sticky/sticky.go"
    text = source.read_text("utf-8")
    for loop, changed in _LOOPS.items():
        assert text.count(loop) == 1, f"{source} has other loops over maps"
        text = text.replace(loop, changed)
    source.write_text(text, "utf-8")
    source.with_name("in_order.go").write_text(_IN_ORDER, "utf-8")
    use_newer_go(package)


FRANZ_GO = GoLibrary("franz_go", "github.com/twmb/franz-go", _as_put_in)


def ask(model: Model, specs: Sequence[Mapping[str, Any]], *options: str) -> list[dict[str, Any]]:
    """Return what it answers where its maps are walked as they were filled."""
    return FRANZ_GO.ask(specs, model.version, *options)
