"""Small files that brokers keep next to segments, about the cluster, topics and log starts.

``meta.properties`` in a log directory has lines such as ``cluster.id=a2dy…`` (0.10.1 and later);
``partition.metadata`` in a partition's folder has the line ``topic_id: 5xG0…`` (2.8 and later).

A checkpoint file in a log directory has offsets of partitions (Kafka's `OffsetCheckpointFile`)::

    0               version
    2               number of entries
    orders 0 1000   topic, partition, offset
    orders 1 12

A broker creates these files empty when it starts, and replaces them every minute and when it stops.
``log-start-offset-checkpoint`` (0.11 and later) lists the partitions whose log start offset is
after the base offset of their first segment, and all partitions with remote storage
(`LogManager.checkpointLogStartOffsetsInDir`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kgroup.model.cluster import TopicPartition

META_PROPERTIES = "meta.properties"
PARTITION_METADATA = "partition.metadata"
LOG_STARTS = "log-start-offset-checkpoint"
_RECOVERY_POINTS = "recovery-point-offset-checkpoint"

LARGEST_PAIRS = 1 << 16
"""Maximum bytes to read of such a file; brokers write a few hundred."""

LARGEST_CHECKPOINT = 64 << 20
"""Maximum bytes to read of a checkpoint: 200,000 entries with topic names of maximum length."""

_ENTRY = re.compile(rb"([a-zA-Z0-9._-]{1,249})\s+([0-9]{1,10})\s+([0-9]{1,19})")
_SHOWN = 80
"""Maximum bytes of a line that an error shows."""


def read_topic_names(directories: Iterable[Path]) -> dict[str, str]:
    """Return topic names by topic id, from one ``partition.metadata`` per topic."""
    names: dict[str, str] = {}
    seen: set[str] = set()
    for directory in directories:
        folders: list[Path] = []
        with suppress(OSError):
            folders = sorted(directory.iterdir())
        for folder in folders:
            topic, dash, number = folder.name.rpartition("-")
            if not dash or not number.isdecimal() or topic in seen:
                continue
            topic_id = read_pairs(folder / PARTITION_METADATA, ":").get("topic_id")
            if topic_id is not None:
                seen.add(topic)
                names[topic_id] = topic
    return names


def read_pairs(path: Path, separator: str) -> dict[str, str]:
    """Read the lines ``name<separator>value`` of a small file; empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            return pairs_in(file.read(LARGEST_PAIRS), separator)
    except OSError:
        return {}


def pairs_in(data: bytes, separator: str) -> dict[str, str]:
    """Parse the lines ``name<separator>value``; empty if the data are not text."""
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError:
        return {}
    pairs = (line.partition(separator) for line in lines if not line.startswith("#"))
    return {name.strip(): value.strip() for name, separated, value in pairs if separated}


def has_checkpoints(directory: Path) -> bool:
    """Return whether a log directory, or a copy of one, has checkpoint files of a broker."""
    return any(os.path.exists(directory / name) for name in (LOG_STARTS, _RECOVERY_POINTS))


def read_log_starts(directory: Path) -> Mapping[TopicPartition, int]:
    """Return log start offsets by topic and partition, from ``log-start-offset-checkpoint``.

    A broker before 0.11 has no such file: its logs start with their first segments.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is not a checkpoint; the message says what was expected and found.
    """
    try:
        with (directory / LOG_STARTS).open("rb") as file:
            data = file.read(LARGEST_CHECKPOINT + 1)
    except FileNotFoundError:
        return {}
    if len(data) > LARGEST_CHECKPOINT:
        raise ValueError(f"expected at most {LARGEST_CHECKPOINT:,} bytes, found more")
    lines = data.splitlines()
    if not lines:
        return {}
    if lines[0] != b"0":
        raise ValueError(f"expected version 0 in line 1, found {lines[0][:_SHOWN]!r}")
    count, entries = b"".join(lines[1:2]), lines[2:]
    if count != b"%d" % len(entries):
        raise ValueError(
            f"expected as many entries as line 2 says, {count[:_SHOWN]!r}, found {len(entries)}"
        )
    starts = {}
    for number, line in enumerate(entries, 3):
        entry = _ENTRY.fullmatch(line)
        if entry is None:
            raise ValueError(
                f"expected a topic, a partition and an offset in line {number}, found "
                f"{line[:_SHOWN]!r}"
            )
        starts[entry[1].decode(), int(entry[2])] = int(entry[3])
    return starts
