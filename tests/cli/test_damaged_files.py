"""Every damaged copy of a recorded segment, through the whole command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import Cli
from tests.examples import some_of

DAMAGED = Path(__file__).parents[1] / "data/damaged"
CASES: dict[str, dict[str, Any]] = json.loads((DAMAGED / "manifest.json").read_text("utf-8"))[
    "cases"
]
"""What was done to each copy, and which records that costs: by Kafka's own dump of the original."""


@pytest.mark.parametrize("name", some_of(list(CASES), 4))
def test_what_is_damaged_is_told_and_the_rest_is_decoded(cli: Cli, name: str) -> None:
    case = CASES[name]
    path = DAMAGED / case["file"]
    result = cli("decode-offsets", path, "-o", "json")
    document = json.loads(result.out)
    offsets = {row["offset"] for row in document["data"]}
    assert set(case["survive"]) <= offsets <= {*case["survive"], *case["uncertain"]}
    errors = document["errors"]
    if name.endswith("zeros-at-end"):  # allocated by the broker, and not written yet
        assert (result.status, errors) == (0, [])
        return
    assert result.status == 4
    assert errors
    assert all(error["path"] == str(path) and error["reason"] for error in errors)
    assert 0 <= errors[0]["position"] < path.stat().st_size
    assert result.err.startswith(f"kgroup: {path}, byte {errors[0]['position']}, ")
    assert errors[0]["reason"] in result.err
