"""Asks the assignors of aiokafka, which come from kafka-python, in a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.assignor.client.answers import Model
from tests.broker.client.program import command


def ask(model: Model, specs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the answers; of elements of a set of which the library takes any, it takes the lowest.

    Args:
        model: whose.
        specs: as `kgroup assign --spec` takes them.
    """
    _, path = command(model.library, model.version)
    process = subprocess.run(
        [sys.executable, Path(__file__).parent / "main.py"],
        input="\n".join(json.dumps({**spec, "strategy": model.strategy}) for spec in specs),
        env=os.environ | path,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return [json.loads(line) for line in process.stdout.splitlines()]
