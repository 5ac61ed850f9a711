"""A user's own query, and its answer in values that every form of output has."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa

from kgroup.errors import UsageError
from kgroup.history.sql.engine import Engine
from kgroup.history.sql.question import Row
from kgroup.operation.report import Report

__all__ = ["Answer", "ask_sql"]


@dataclass(frozen=True, slots=True)
class Answer(Report[Row]):
    """What a query gave: rows with values that JSON has.

    Attributes:
        columns: their types, by name, in order.
    """

    columns: Mapping[str, pa.DataType] = field(default_factory=dict)


def ask_sql(engine: Engine, query: str) -> Answer:
    """Answer a query.

    Raises:
        UsageError: it is none, or gives two columns one name.
        KgroupError: it cannot be answered.
    """
    found = engine.query(query)
    names = found.schema.names
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"two columns are called {name}; name one of them otherwise, by AS")
    rows = [{name: _plain(value) for name, value in row.items()} for row in found.to_pylist()]
    columns = dict(zip(names, found.schema.types, strict=True))
    return Answer(tuple(rows), columns=columns)


def _plain(value: Any) -> Any:
    """Give a value as JSON has it: numbers as numbers, bytes in base64, what else is not as text.

    Numbers that JSON has no way to write (NaN and the infinities) are null.
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return str(value)
