"""Logs of `tests/data/field`: decoded records of one partition of `__consumer_offsets`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from kgroup.model.delta import Delta
from kgroup.model.group import Group
from kgroup.model.record import DecodedRecord

_FOLDER = Path(__file__).parent / "data" / "field"


def groups_of(name: str) -> Iterator[Group]:
    """Yield the only group of a log after each of its records, while there is one."""
    delta = None
    for line in (_FOLDER / f"{name}.jsonl").read_text("utf-8").splitlines():
        record = DecodedRecord(**json.loads(line))
        delta = delta or Delta(record.partition)
        delta.replay(record)
        yield from delta.groups().values()
