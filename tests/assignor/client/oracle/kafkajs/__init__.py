"""Asks KafkaJS itself; needs Node and npm."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.assignor.client.answers import Model, file_name
from tests.broker.maven import CACHE


def ask(model: Model, specs: Sequence[Mapping[str, Any]], *options: str) -> list[dict[str, Any]]:
    """Return the answers; the first member leads.

    Args:
        model: whose; its version is installed into a folder of its own.
        specs: as `kgroup assign --spec` takes them.
        options: of the program.
    """
    return ask_in_node(model, Path(__file__).parent / "main.mjs", specs, *options)


def ask_in_node(
    model: Model, program: Path, specs: Sequence[Mapping[str, Any]], *options: str
) -> list[dict[str, Any]]:
    """Return the answers of a program that uses a library of Node."""
    folder = CACHE / file_name(model.library) / model.version
    if not folder.exists():
        install = ["npm", "install", "--silent", "--no-audit", "--prefix", str(folder)]
        package = f"{model.library}@{model.version}"
        subprocess.run([*install, package], check=True, stdout=subprocess.DEVNULL)
    process = subprocess.run(
        ["node", program, folder, *options],
        input="\n".join(map(json.dumps, specs)),
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return [json.loads(line) for line in process.stdout.splitlines()]
