"""Asks @platformatic/kafka itself; needs Node and npm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.assignor.client.answers import Model
from tests.assignor.client.oracle.kafkajs import ask_in_node


def ask(model: Model, specs: Sequence[Mapping[str, Any]], *options: str) -> list[dict[str, Any]]:
    """Return the answers; the first member leads."""
    return ask_in_node(model, Path(__file__).parent / "main.mjs", specs, *options)
