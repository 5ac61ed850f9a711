"""Asks kafka-python itself, each version in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.assignor.client.answers import Model
from tests.broker.maven import CACHE


def ask(model: Model, specs: Sequence[Mapping[str, Any]], *options: str) -> list[dict[str, Any]]:
    """Return the answers; of elements of a set of which the library takes any, it takes the lowest.

    Args:
        model: whose.
        specs: as `kgroup assign --spec` takes them.
        options: of the program.
    """
    return run(model.version, model.strategy, specs, "-in-order", *options)


def run(
    version: str | None,
    strategy: str,
    specs: Sequence[Mapping[str, Any]],
    *options: str,
    hash_seed: int = 0,
) -> list[dict[str, Any]]:
    """Run the program on specs.

    Args:
        version: of kafka-python, which is installed into a folder of its own; None: the one that is
            installed here.
        strategy: in place of those of the specs.
        specs: likewise.
        options: of the program.
        hash_seed: of the process, on which the order of sets depends.
    """
    path = {} if version is None else {"PYTHONPATH": str(_installed(version))}
    lines = (json.dumps({**spec, "strategy": strategy}) for spec in specs)
    process = subprocess.run(
        [sys.executable, Path(__file__).parent / "main.py", *options],
        input="\n".join(lines),
        env=os.environ | path | {"PYTHONHASHSEED": str(hash_seed)},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return [json.loads(line) for line in process.stdout.splitlines()]


def _installed(version: str) -> Path:
    folder = CACHE / "kafka-python" / version
    if not folder.exists():
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target"]
        subprocess.run([*command, folder, f"kafka-python=={version}"], check=True)
    return folder
