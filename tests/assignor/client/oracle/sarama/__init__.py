"""Asks Sarama's own balance strategies, in a Go program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.assignor.client.answers import Model
from tests.assignor.client.oracle.go_oracle import GoLibrary

__all__ = ["SARAMA", "ask"]

SARAMA = GoLibrary(
    "sarama",
    "github.com/IBM/sarama",
    {
        "1.61.1": ("github.com/IBM/sarama@v1.61.1", "1.61"),
        "1.47.0": ("github.com/IBM/sarama@v1.47.0", "1.47"),
        "1.30.0": ("github.com/Shopify/sarama@v1.30.0", "1.30"),
    },
    (
        "balance_strategy.go",
        "consumer_group.go",
        "consumer_group_members.go",
        "sticky_assignor_user_data.go",
    ),
)


def ask(model: Model, specs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Give what it answers where its maps have the lowest key first."""
    return SARAMA.ask(specs, model.version, order="ascending")
