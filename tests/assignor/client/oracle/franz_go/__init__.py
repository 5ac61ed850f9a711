"""Asks franz-go's own balancers, in a Go program."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["ask", "build"]

_MODULE = "github.com/twmb/franz-go"
_SORTED = """package sticky

import "slices"

func sortedKeys[K string | int32, V any](of map[K]V) []K {
	keys := make([]K, 0, len(of))
	for key := range of {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
"""


def build(version: str, folder: Path, *, sorts_keys: bool) -> Path:
    """Build the program with a version of franz-go, and give its path.

    Args:
        version: without the v.
        folder: where; it is made.
        sorts_keys: whether the sticky balancer walks over maps in sorted order, not in Go's, which
            is drawn anew each time. Nothing else is changed in it.
    """
    shutil.copytree(Path(__file__).parent, folder, ignore=shutil.ignore_patterns("*.py"))
    _go(folder, "get", f"{_MODULE}@v{version}")
    _go(folder, "mod", "tidy")
    _go(folder, "mod", "vendor")
    if sorts_keys:
        source = folder / f"vendor/{_MODULE}/pkg/kgo/internal/sticky/sticky.go"
        text, changes = re.subn(
            r"\n(\t+)for (\w+), (\w+) := range (topics|b\.stales) \{\n",
            r"\n\1for _, \2 := range sortedKeys(\4) {\n\1\t\3 := \4[\2]\n",
            source.read_text("utf-8"),
        )
        assert changes == 2, f"{source} has other loops over maps"
        source.write_text(text, "utf-8")
        source.with_name("sorted_keys.go").write_text(_SORTED, "utf-8")
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
