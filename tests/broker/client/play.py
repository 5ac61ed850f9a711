"""Play rounds of groups drawn at random: `python -m tests.broker.client.play SEED ROUNDS FILE`.

Libraries, their versions, strategies, subscriptions, brokers and what happens are drawn. All rounds
are appended to the file, whatever a dry run says of them; the outcome of those whose groups did not
come to rest is null. Words that may
follow are what the names of all kinds of groups that are played contain.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import ceil
from pathlib import Path
from random import Random
from typing import Any

from tests.broker.client.rounds import Kind, play, read_rounds, write_rounds

ROUNDS_OF_A_GROUP = 6
MIXED = 0.3
"""Share of groups with several libraries."""
CONSUMER = 0.15
"""Share of groups with the consumer protocol."""


@dataclass(frozen=True)
class Library:
    """What members of a library can be.

    Attributes:
        weight: how often it is drawn.
        strategies: that it has.
        versions: other ones than the tests usually play.
        has_patterns: whether it subscribes to patterns.
        has_static: whether its members may be static.
        brokers: that it can talk to.
    """

    weight: int
    strategies: tuple[str, ...]
    versions: tuple[str, ...] = ()
    has_patterns: bool = True
    has_static: bool = True
    brokers: tuple[str, ...] = ("4.3.1", "3.9.2")


_EAGER = ("range", "roundrobin")
_STICKY = "cooperative-sticky"
LIBRARIES: Mapping[str, Library] = {
    "kafka-clients": Library(
        8, (*_EAGER, "sticky", _STICKY, f"range,{_STICKY}"), ("2.8.2", "3.3.2", "3.9.2")
    ),
    "librdkafka": Library(6, (*_EAGER, _STICKY, "range,roundrobin"), ("2.6.0",)),
    "node-rdkafka": Library(1, (*_EAGER, _STICKY)),
    "kafka-python": Library(5, (*_EAGER, "sticky", _STICKY), ("2.3.3",)),
    "aiokafka": Library(3, (*_EAGER, "sticky")),
    "franz-go": Library(6, (*_EAGER, "sticky", _STICKY), ("1.18.0",)),
    "sarama": Library(4, (*_EAGER, "sticky", _STICKY), ("1.47.0",), has_patterns=False),
    "kafka-go": Library(2, _EAGER, ("0.4.35",), has_patterns=False, has_static=False),
    "kafkajs": Library(2, ("RoundRobinAssigner",), ("1.16.0",), has_static=False),
    "@platformatic/kafka": Library(2, ("roundrobin",), ("1.31.0",), has_patterns=False),
    "kafka-node": Library(1, _EAGER, has_patterns=False, has_static=False, brokers=("3.9.2",)),
}
_WITHOUT = {("sarama@1.47.0", _STICKY), ("kafka-python@2.3.3", _STICKY)}
"""Strategies that versions do not have."""
_CONSUMERS = (
    ("kafka-clients", "consumer"),
    ("kafka-clients", "consumer:uniform"),
    ("kafka-clients", "consumer:range"),
    ("librdkafka", "consumer"),
    ("librdkafka", "consumer:range"),
)
_CLASSIC = (("kafka-clients", "range"), ("kafka-clients", _STICKY), ("librdkafka", "range"))
"""Members of the classic protocol that may be in groups with the consumer protocol, too."""


def _consumers(random: Random) -> Kind:
    """Draw a kind of group with the consumer protocol."""
    members = random.sample(_CONSUMERS, random.choice((1, 1, 2)))
    members += random.sample(_CLASSIC, random.random() < 0.2)
    libraries = {library for library, _ in members}
    return Kind(
        libraries.pop() if len(libraries) == 1 else "mixed",
        tuple(members),
        random.choice(("alike", "different", "pattern")),
        is_static=random.random() < 0.15,
        rounds=ROUNDS_OF_A_GROUP,
        has_odd_ids=random.random() < 0.3,
    )


def drawn_kinds(random: Random) -> Iterator[Kind]:
    """Draw kinds of groups."""
    while True:
        if random.random() < CONSUMER:
            yield _consumers(random)
            continue
        broker = random.choice(("4.3.1", "4.3.1", "3.9.2"))
        known = {name: each for name, each in LIBRARIES.items() if broker in each.brokers}
        count = random.choice((2, 2, 3)) if random.random() < MIXED else 1
        if count > 1:
            strategy = random.choice((*_EAGER, "sticky", _STICKY))
            known = {name: each for name, each in known.items() if strategy in each.strategies}
        weights = [each.weight for each in known.values()]
        names = list(dict.fromkeys(random.choices(list(known), weights, k=count)))
        libraries = [known[name] for name in names]
        if count == 1:
            strategy = random.choice(libraries[0].strategies)
        members = []
        for name, library in zip(names, libraries, strict=True):
            is_old = library.versions and random.random() < 0.2
            older = [f"{name}@{random.choice(library.versions)}"] if is_old else []
            newer = [name] if not older or random.random() < 0.4 else []
            members += [(each, strategy) for each in older + newer]
        topics = ["alike", "alike", "different"]
        topics += ["pattern"] * all(library.has_patterns for library in libraries)
        has_static = all(library.has_static for library in libraries)
        if _WITHOUT.isdisjoint(members):
            yield Kind(
                names[0] if len(names) == 1 else "mixed",
                tuple(members),
                random.choice(topics),
                is_static=has_static and random.random() < 0.15,
                broker=broker,
                rounds=ROUNDS_OF_A_GROUP,
                has_odd_ids=random.random() < 0.3,
            )


def main(seed: str, rounds: str, file: str, *words: str) -> None:
    """Draw kinds with words in their names, and play about as many rounds."""
    path = Path(file)
    lines = read_rounds(path) if path.exists() else []
    kinds = (kind for kind in drawn_kinds(Random(seed)) if all(word in kind.name for word in words))
    some = list(islice(kinds, ceil(int(rounds) / ROUNDS_OF_A_GROUP)))

    def keep(kind: Kind, played: Sequence[Mapping[str, Any]]) -> None:
        lines.extend({**line, "play": seed} for line in played)

    try:
        play(some, seed, keep)
    finally:
        write_rounds(path, lines)


if __name__ == "__main__":
    main(*sys.argv[1:])
