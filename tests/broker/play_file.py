"""Plays with what a broker answered, in files: `python -m tests.broker.play_file` records them.

A file is lines of JSON, compressed: what was configured, then the acts of one play after the other.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kgroup.simulation import message
from kgroup.simulation.consumer import message as consumer_message
from kgroup.simulation.consumer.topic_image import KnownTopic, TopicImage
from kgroup.simulation.rules import MigrationPolicy
from tests.broker.group_play import VERSIONS, Play, play_broker, settings
from tests.broker.mixed_play import FAIL_OVER_SETTINGS, fail_over_plays, policy_broker

FOLDER = Path(__file__).parents[1] / "data" / "group-plays"
DELAYS = {"prompt": 0, "patient": 600}
"""How long brokers wait for the first members; time passes in the plays with the patient one."""
_CLASSES = {**vars(message), **vars(consumer_message), "KnownTopic": KnownTopic}
MIXED = "4.3.1-mixed"
"""The file of groups whose members speak both protocols."""
_MIXED_SEEDS = range(1000, 1025)
_SEEDS = {"prompt": range(1000, 1020), "patient": range(1000, 1030)}


def encode(value: Any) -> Any:
    """Make something that JSON has; messages are objects with their class's name as "type"."""
    if is_dataclass(value):
        named = {field.name: encode(getattr(value, field.name)) for field in fields(value)}
        return {"type": type(value).__name__, **named}
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Mapping):
        return {"pairs": sorted([encode(each), encode(value[each])] for each in value)}
    if isinstance(value, tuple | list):
        return [encode(each) for each in value]
    if isinstance(value, frozenset):
        return {"set": sorted(encode(each) for each in value)}
    return value


def decode(data: Any) -> Any:
    """Make what `encode` was given, of a request."""
    if isinstance(data, list):
        return tuple(decode(each) for each in data)
    if not isinstance(data, dict):
        return data
    if "set" in data:
        return frozenset(decode(each) for each in data["set"])
    if "base64" in data:
        return base64.b64decode(data["base64"])
    if "pairs" in data:
        return {decode(key): decode(value) for key, value in data["pairs"]}
    made = {name: decode(value) for name, value in data.items() if name != "type"}
    return _CLASSES[data["type"]](**made)


def record(version: str, kind: str, work: Path) -> None:
    """Play to a broker, and write what it answered."""
    with play_broker(version, work, DELAYS[kind]) as server:
        plays = [
            Play(
                version, server.bootstrap, seed, settings(version, DELAYS[kind]), kind == "patient"
            )
            for seed in _SEEDS[kind]
        ]
        with ThreadPoolExecutor(len(plays) if kind == "patient" else 1) as pool:
            list(pool.map(Play.run, plays))
    assert not any(play.differences for play in plays)
    _write(f"{version}-{kind}", (play.acts for play in plays))


def record_mixed(work: Path) -> None:
    """Play groups that change their protocol to a broker, which restarts in the middle."""
    with policy_broker(MigrationPolicy.BIDIRECTIONAL, work, FAIL_OVER_SETTINGS) as server:
        plays = fail_over_plays(server, _MIXED_SEEDS)
    assert not any(play.differences for play in plays)
    _write(MIXED, ([tuple(play.topics), *play.acts] for play in plays))


def _write(name: str, plays: Iterable[Any]) -> None:
    FOLDER.mkdir(exist_ok=True)
    lines = [json.dumps(encode(play), separators=(",", ":")) for play in plays]
    data = gzip.compress("\n".join(lines).encode(), mtime=0)
    (FOLDER / f"{name}.jsonl.gz").write_bytes(data)


def read_plays(version: str, kind: str) -> Iterator[list[dict[str, Any]]]:
    """Read the acts of each play."""
    yield from _read(f"{version}-{kind}")


def read_mixed_plays() -> Iterator[tuple[TopicImage, list[dict[str, Any]]]]:
    """Read the topics and the acts of each play of a group that changes its protocol."""
    for topics, *acts in _read(MIXED):
        yield TopicImage(decode(topics)), acts


def _read(name: str) -> Iterator[Any]:
    with gzip.open(FOLDER / f"{name}.jsonl.gz", "rt") as file:
        yield from map(json.loads, file)


def request_of(act: Mapping[str, Any]) -> Any:
    """Return the request of an act."""
    return decode(act["request"])


if __name__ == "__main__":
    for version in VERSIONS:
        for kind in DELAYS:
            with TemporaryDirectory() as work:
                record(version, kind, Path(work))
    with TemporaryDirectory() as work:
        record_mixed(Path(work))
