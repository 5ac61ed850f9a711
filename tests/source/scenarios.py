"""The recorded log directories that come with the broker's own answers about its groups."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]
_DATA = _ROOT / "tests" / "data"


@dataclass(frozen=True, slots=True)
class Scenario:
    """A recorded log directory, which lies beside its manifest or where that says.

    `answers` holds, under "groups" what ListGroups said (nothing before Kafka 0.9), under
    "described" the describe API of each group's type, under "offsets" OffsetFetch, with Kafka's
    field names in snake case.
    """

    name: str
    broker: str
    log_dir: Path
    config: dict[str, str]
    answers: dict[str, Any]

    @property
    def version(self) -> tuple[int, ...]:
        """The broker's version, to compare."""
        return tuple(map(int, self.broker.split(".")))


def scenario(name: str) -> Scenario:
    folder = _DATA / name
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    return Scenario(
        name,
        manifest["broker"],
        _ROOT / manifest["root"] if "root" in manifest else folder,
        manifest.get("config", {}),
        manifest["answers"],
    )


SCENARIOS = sorted(
    path.parent.name
    for path in _DATA.glob("*/manifest.json")
    if "answers" in json.loads(path.read_text("utf-8"))
)
"""Names of all of them."""
