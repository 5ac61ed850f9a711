"""Versions of client libraries, each against the model that stands for it.

The first version of each range, the last ones before the next range, and some between. Each assigns
for 100 random histories of groups a strategy; the models themselves were compared in more histories
(`tests.assignor.client.record`). Needs Go, Node, and the registries of Go, npm and PyPI.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kgroup.assignor.group_spec import ASSIGNS_LIKE, CLIENTS
from kgroup.assignor.member_spec import Software
from tests.assignor.case.notation import answer_of
from tests.assignor.client.answers import Model, history
from tests.assignor.client.record import ask

VERSIONS: Mapping[str, tuple[str, ...]] = {
    "librdkafka": (*("2.12.1", "2.6.1"), *("2.5.3", "2.2.0"), *("2.1.0", "1.8.2", "1.7.0")),
    "franz-go": (
        "1.22.3",
        "1.21.3",
        *("1.20.7", "1.17.1", "1.15.2"),
        *("1.15.0", "1.10.4", "1.5.0"),
    ),
    "sarama": (
        *("1.61.0", "1.60.1"),
        *("1.60.0", "1.43.3", "1.40.0", "1.38.1", "1.34.1"),
        *("1.34.0", "1.28.0"),
    ),
    "kafka-go": (*("0.4.48", "0.4.47", "0.4.38"), *("0.4.20", "0.4.0", "0.3.10", "0.3.6")),
    "kafka-python": (*("3.0.5", "3.0.0"), "2.3.0", *("2.2.0", "2.1.0", "2.0.3")),
    "aiokafka": ("0.14.0", "0.12.0", "0.10.0", "0.9.0"),
    "kafkajs": ("2.0.0", "1.16.0", "1.13.0", "1.8.0", "1.4.0"),
    "@platformatic/kafka": ("1.31.0",),
}
_HISTORIES = 100

pytestmark = pytest.mark.oracle_clients


@pytest.mark.parametrize(
    ("library", "version"),
    [(library, version) for library, versions in VERSIONS.items() for version in versions],
)
def test_a_version_assigns_as_the_one_that_stands_for_it(library: str, version: str) -> None:
    known = ASSIGNS_LIKE.get(library) or Software(
        library, CLIENTS[library].version_of(version) or ""
    )
    assert known.version != version
    for strategy in CLIENTS[known.name].strategies[known.version]:
        model = Model(known.name, known.version, strategy)
        rounds = [each for seed in range(_HISTORIES) for each in history(model, seed)]
        answers = ask(Model(library, version, strategy), [spec for spec, _ in rounds])
        different = [
            (spec, answer)
            for (spec, said), answer in zip(rounds, answers, strict=True)
            if answer_of(said) != answer_of(answer)
        ]
        assert not different, (model, len(different), different[0])
