"""Logs of `tests/data/field`: decoded records of one partition of `__consumer_offsets`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from kgroup.model.delta import Delta
from kgroup.model.group import Group
from kgroup.model.record import DecodedRecord

_FOLDER = Path(__file__).parent / "data" / "field"


def records_of(name: str) -> Iterator[DecodedRecord]:
    """Yield the records of a log."""
    for line in (_FOLDER / f"{name}.jsonl").read_text("utf-8").splitlines():
        yield DecodedRecord(**json.loads(line))


def groups_of(name: str) -> Iterator[Group]:
    """Yield the only group of a log after each of its records, while there is one."""
    delta = None
    for record in records_of(name):
        delta = delta or Delta(record.partition)
        delta.replay(record)
        yield from delta.groups().values()
