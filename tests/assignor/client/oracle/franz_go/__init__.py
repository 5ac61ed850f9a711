"""Asks franz-go's own balancers, in a Go program."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["ask", "build"]

_MODULE = "github.com/twmb/franz-go"
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


def build(version: str, folder: Path, *, in_order: bool) -> Path:
    """Build the program with a version of franz-go, and give its path.

    Args:
        version: without the v.
        folder: where; it is made.
        in_order: whether the sticky balancer walks over maps in the order in which they were
            filled, not in Go's, which is drawn anew each time. Nothing else is changed in it.
    """
    shutil.copytree(Path(__file__).parent, folder, ignore=shutil.ignore_patterns("*.py"))
    _go(folder, "get", f"{_MODULE}@v{version}")
    _go(folder, "mod", "tidy")
    _go(folder, "mod", "vendor")
    if in_order:
        source = folder / f"vendor/{_MODULE}/pkg/kgo/internal/sticky/sticky.go"
        text = source.read_text("utf-8")
        for loop, changed in _LOOPS.items():
            assert text.count(loop) == 1, f"{source} has other loops over maps"
            text = text.replace(loop, changed)
        source.write_text(text, "utf-8")
        source.with_name("in_order.go").write_text(_IN_ORDER, "utf-8")
    _go(folder, "build", "-mod=vendor", "-o", "oracle", ".")
    return folder / "oracle"


def ask(program: Path, specs: Sequence[Mapping[str, Any]], *options: str) -> list[dict[str, Any]]:
    """Give for each spec what the program says."""
    lines = "".join(json.dumps(spec) + "\n" for spec in specs)
    done = subprocess.run(
        [program, *options], input=lines.encode(), stdout=subprocess.PIPE, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def _go(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["go", *arguments], cwd=folder, stdout=subprocess.PIPE, check=True, text=True
    )
    return done.stdout
