"""Where batches and records of a segment stand, told by Kafka's own dump tool."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.broker.maven import run_java

TOOL = "4.3.1"

_POSITION = re.compile(rb" position: (\d+) .* size: (\d+) magic: (\d+) ")
_OFFSET = re.compile(rb"^\| offset: (\d+) ")
_SHALLOW = re.compile(rb"^offset: (\d+) ")


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch, or one outer message of formats v0 and v1.

    Attributes:
        position: byte position in the file.
        size: bytes, header included.
        magic: message format.
        offsets: of the records inside, markers of transactions included.
    """

    position: int
    size: int
    magic: int
    offsets: tuple[int, ...]

    @property
    def end(self) -> int:
        """Position behind its last byte."""
        return self.position + self.size


def layout(segment: Path) -> list[Batch]:
    """All batches of a segment, in order, as `kafka-dump-log --deep-iteration` sees them."""
    arguments = ["--deep-iteration", "--files", str(segment)]
    dump = run_java(TOOL, "org.apache.kafka.tools.DumpLogSegments", arguments).stdout
    batches: list[tuple[int, int, int, list[int]]] = []
    for line in dump.splitlines():
        head, inner, shallow = _POSITION.search(line), _OFFSET.match(line), _SHALLOW.match(line)
        if inner:
            batches[-1][3].append(int(inner[1]))
        elif head:
            position, size, magic = (int(group) for group in head.groups())
            batches.append((position, size, magic, [int(shallow[1])] if shallow else []))
    found = []
    for position, size, magic, offsets in batches:
        # A wrapper's line names the last of its offsets, which its records name again.
        found.append(Batch(position, size, magic, tuple(sorted(set(offsets)))))
    end = found[-1].end if found else 0
    if end != segment.stat().st_size:
        raise AssertionError(f"Kafka sees {end} of {segment.stat().st_size} bytes of {segment}")
    return found
