"""What client libraries answer to random histories of groups, recorded.

A file for each library and strategy has, by version, a digest of the answers to each history, and
those of the first ones in full, to be read (`xzcat`). Where a digest differs,
`tests.assignor.client.record` asks the library anew and names the first difference.
"""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgroup.assignor.client.java import JAVA
from kgroup.assignor.group_spec import CLIENTS
from tests.assignor.case.notation import answer_of, assigned
from tests.assignor.random_group import RandomGroup

_FOLDER = Path(__file__).parents[2] / "data" / "clients"
_ROUNDS = 5
_DIGITS = 4
_WORDLESS = ("SIGABRT", "SIGSEGV", "EndlessLoop")
"""Ends of a leader that come without a message."""
_FIELDS = ("member_id", "topics", "instance_id", "rack", "owned", "generation")
"""Of members; others say what Java's subscriptions may be besides."""


def file_name(library: str) -> str:
    """Return the name of a library in names of files."""
    return library.removeprefix("@").replace("/", "-")


@dataclass(frozen=True)
class Model:
    """A strategy of a version of a library."""

    library: str
    version: str
    strategy: str

    def __str__(self) -> str:
        return f"{self.library}-{self.version}-{self.strategy}"

    @property
    def path(self) -> Path:
        """Where the recorded answers are, with those of the other versions."""
        return _FOLDER / f"{file_name(self.library)}-{self.strategy}.json.xz"


@dataclass(frozen=True)
class Answers:
    """What a library answered.

    Attributes:
        in_full: to the first histories, in the notation of `answer_of`.
        digests: of the answers to each history.
    """

    in_full: list[list[Any]]
    digests: list[str]

    @classmethod
    def read(cls, model: Model) -> Answers:
        """Read recorded answers."""
        data = _by_version(model)[model.version]
        digests = data["digests"]
        parts = [digests[at : at + _DIGITS] for at in range(0, len(digests), _DIGITS)]
        return cls(data["in_full"], parts)

    def write(self, model: Model) -> None:
        """Record them; the same answers give the same bytes."""
        data = _by_version(model) if model.path.exists() else {}
        data[model.version] = {"in_full": self.in_full, "digests": "".join(self.digests)}
        text = json.dumps(data, indent=0, sort_keys=True) + "\n"
        model.path.write_bytes(lzma.compress(text.encode(), preset=9))


def _by_version(model: Model) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(lzma.decompress(model.path.read_bytes()))
    return data


MODELS = [
    Model(library.name, version, strategy)
    for library in CLIENTS.values()
    if library is not JAVA  # which is asked in a JVM, see tests/broker/test_assignor_oracle.py
    for version, strategies in library.strategies.items()
    for strategy in strategies
]


def history(model: Model, seed: int) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield the rebalances of one group: what an oracle is asked, and what kgroup says.

    Members own afterwards what kgroup says.
    """
    by_rack = CLIENTS[model.library].version_by_rack == model.version
    group = RandomGroup(seed, model.strategy, leaders_differ=by_rack)
    for _ in range(_ROUNDS):
        spec = group.spec | {"client": f"{model.library}@{model.version}"}
        spec["members"] = [
            {name: each[name] for name in _FIELDS if name in each} for each in spec["members"]
        ]
        said = assigned(spec)
        yield spec, comparable(said)
        group.go_on(said.get("assignment"))


def comparable(said: dict[str, Any]) -> dict[str, Any]:
    """Leave out what kgroup alone says: why a leader ends."""
    error = said.get("error")
    if error is None or error["type"] not in _WORDLESS:
        return said
    return {"error": error | {"message": None}}


def digest(answers: Sequence[dict[str, Any]]) -> str:
    """Give 4 digits that stand for the answers to one history, order of partitions included."""
    texts = [answer_of(answer) for answer in answers]
    return hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest()[:_DIGITS]
