"""Plays with what a broker answered, in files: `python -m tests.broker.play_file` records them.

A file is lines of JSON, compressed: what was configured, then the acts of one play after the other.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kgroup.simulation import message
from kgroup.simulation.message import Request
from tests.broker.group_play import VERSIONS, Play, play_broker, settings

__all__ = ["FOLDER", "decode", "encode", "read_plays"]

FOLDER = Path(__file__).parents[1] / "data" / "group-plays"
DELAYS = {"prompt": 0, "patient": 600}
"""How long brokers wait for the first members; time passes in the plays with the patient one."""
_SEEDS = {"prompt": range(1000, 1020), "patient": range(1000, 1030)}


def encode(value: Any) -> Any:
    """Make something that JSON has; messages are objects with their class's name as "type"."""
    if is_dataclass(value):
        named = {each.name: encode(getattr(value, each.name)) for each in fields(value)}
        return {"type": type(value).__name__, **named}
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Mapping):
        return {"pairs": sorted([encode(each), encode(value[each])] for each in value)}
    if isinstance(value, tuple | list):
        return [encode(each) for each in value]
    return value


def decode(data: Any) -> Any:
    """Make what `encode` was given, of a request."""
    if isinstance(data, list):
        return tuple(decode(each) for each in data)
    if not isinstance(data, dict):
        return data
    if "base64" in data:
        return base64.b64decode(data["base64"])
    if "pairs" in data:
        return {decode(key): decode(value) for key, value in data["pairs"]}
    made = {name: decode(value) for name, value in data.items() if name != "type"}
    return getattr(message, data["type"])(**made)


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
    FOLDER.mkdir(exist_ok=True)
    lines = [json.dumps(encode(play.acts), separators=(",", ":")) for play in plays]
    data = gzip.compress("\n".join(lines).encode(), mtime=0)
    (FOLDER / f"{version}-{kind}.jsonl.gz").write_bytes(data)


def read_plays(version: str, kind: str) -> Iterator[list[dict[str, Any]]]:
    """Read the acts of each play."""
    with gzip.open(FOLDER / f"{version}-{kind}.jsonl.gz", "rt") as file:
        for line in file:
            yield json.loads(line)


def request_of(act: Mapping[str, Any]) -> Request | None:
    """Return the request of an act."""
    request: Request | None = decode(act["request"])
    return request


if __name__ == "__main__":
    for version in VERSIONS:
        for kind in DELAYS:
            with TemporaryDirectory() as work:
                record(version, kind, Path(work))
