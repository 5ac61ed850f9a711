"""Asks franz-go's own balancers, in a Go program."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tests.assignor.client.answers import Model
from tests.broker.maven import CACHE

__all__ = ["ask", "run"]

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


def ask(model: Model, specs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Give for each spec what the library answers where its maps are walked as they were filled."""
    return run(model.version, specs, in_order=True)


def run(
    version: str, specs: Sequence[Mapping[str, Any]], *options: str, in_order: bool
) -> list[dict[str, Any]]:
    """Give for each spec what the program says.

    Args:
        version: of the library, without the v.
        specs: as `kgroup assign --spec` takes them.
        options: of the program.
        in_order: whether the sticky balancer walks over maps in the order in which they were
            filled, not in Go's, which is drawn anew each time. Nothing else is changed in it.
    """
    done = subprocess.run(
        [_built(version, in_order=in_order), *options],
        input="".join(json.dumps(spec) + "\n" for spec in specs).encode(),
        stdout=subprocess.PIPE,
        check=True,
        timeout=3600,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


@cache
def _built(version: str, *, in_order: bool) -> Path:
    """Build the program with a version of franz-go, once for all processes."""
    sources = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.*")):
        sources.update(source.read_bytes())
    order = "in-order" if in_order else "as-it-is"
    done = CACHE / f"franz-go-{version}-{order}-{sources.hexdigest()[:16]}"
    if done.exists():
        return done
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as parent:
        folder = Path(parent) / "program"
        shutil.copytree(Path(__file__).parent, folder, ignore=shutil.ignore_patterns("*.py*"))
        _go("get", f"{_MODULE}@v{version}", at=folder)
        _go("mod", "tidy", at=folder)
        _go("mod", "vendor", at=folder)
        if in_order:
            _walk_in_order(folder / f"vendor/{_MODULE}/pkg/kgo/internal/sticky/sticky.go")
        _go("build", "-mod=vendor", "-o", "ask", ".", at=folder)
        (folder / "ask").replace(done)
    return done


def _walk_in_order(source: Path) -> None:
    text = source.read_text("utf-8")
    for loop, changed in _LOOPS.items():
        assert text.count(loop) == 1, f"{source} has other loops over maps"
        text = text.replace(loop, changed)
    source.write_text(text, "utf-8")
    source.with_name("in_order.go").write_text(_IN_ORDER, "utf-8")


def _go(*words: str, at: Path) -> None:
    done = subprocess.run(
        ["go", *words],
        cwd=at,
        capture_output=True,
        env=os.environ | {"GOFLAGS": "-buildvcs=false", "GOTOOLCHAIN": "local"},
        check=False,
    )
    assert not done.returncode, done.stderr.decode()
