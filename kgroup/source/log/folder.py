"""What brokers keep beside the segments: small files that tell of the cluster and of topics.

``meta.properties`` in a log directory has lines such as ``cluster.id=a2dy…`` (0.10.1 and later),
``partition.metadata`` in a partition's folder the line ``topic_id: 5xG0…`` (2.8 and later).
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

__all__ = [
    "LARGEST_PAIRS",
    "META_PROPERTIES",
    "PARTITION_METADATA",
    "pairs_in",
    "read_pairs",
    "read_topic_names",
]

META_PROPERTIES = "meta.properties"
PARTITION_METADATA = "partition.metadata"

LARGEST_PAIRS = 1 << 16
"""Bytes that are read of such a file; brokers write some hundred."""


def read_topic_names(directories: Iterable[Path]) -> dict[str, str]:
    """Read names of topics by id from one ``partition.metadata`` of each topic."""
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
    """Read the lines ``name<separator>value`` of a small file; none where it cannot be read."""
    try:
        with path.open("rb") as file:
            return pairs_in(file.read(LARGEST_PAIRS), separator)
    except OSError:
        return {}


def pairs_in(data: bytes, separator: str) -> dict[str, str]:
    """Give the lines ``name<separator>value``; none where they are no text."""
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError:
        return {}
    pairs = (line.partition(separator) for line in lines if not line.startswith("#"))
    return {name.strip(): value.strip() for name, found, value in pairs if found}
