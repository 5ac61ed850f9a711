"""Asks kafka-go's own group balancers, in a Go program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.assignor.client.answers import Model
from tests.assignor.client.oracle.go_oracle import GoLibrary, by_key

KAFKA_GO = GoLibrary(
    "kafka_go",
    "github.com/segmentio/kafka-go",
    by_key("groupbalancer.go", "syncgroup.go", "consumergroup.go"),
)


def ask(model: Model, specs: Sequence[Mapping[str, Any]], *options: str) -> list[dict[str, Any]]:
    """Return what it answers where its maps have the lowest key first."""
    return KAFKA_GO.ask(specs, model.version, *options)
