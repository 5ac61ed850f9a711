"""What members of client libraries send, written down by the libraries: see `record`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.assignor.client.answers import file_name

TOPICS = {"zoo": 3, "ant": 4, "Mole": 2}
"""Partitions of the topics to which all subscribe, in the order in which members name them."""

_FOLDER = Path(__file__).parents[2] / "data" / "clients"


def path_of(library: str) -> Path:
    """Return the file of a library."""
    return _FOLDER / f"members-{file_name(library)}.jsonl"


def recorded(library: str) -> list[dict[str, Any]]:
    """Return what members of a library sent, and got."""
    return [json.loads(line) for line in path_of(library).read_text("utf-8").splitlines()]
