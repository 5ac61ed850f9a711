"""Asks Sarama's own balance strategies, in a Go program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.assignor.client.answers import Model
from tests.assignor.client.oracle.go_oracle import GoLibrary, by_key

SARAMA = GoLibrary(
    "sarama",
    "github.com/IBM/sarama",
    by_key(
        "balance_strategy.go",
        "consumer_group.go",
        "consumer_group_members.go",
        "sticky_assignor_user_data.go",
    ),
    ("github.com/Shopify/sarama", "1.40.0"),
)


def ask(model: Model, specs: Sequence[Mapping[str, Any]], *options: str) -> list[dict[str, Any]]:
    """Return what it answers where its maps have the lowest key first."""
    return SARAMA.ask(specs, model.version, *options)
