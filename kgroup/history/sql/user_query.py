"""Run a user's own query, and convert its result to values that every output format has."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from kgroup.errors import UsageError
from kgroup.history.sql.engine import Engine
from kgroup.history.sql.question import Row
from kgroup.operation.report import Report


@dataclass(frozen=True, slots=True)
class Answer(Report[Row]):
    """Result of a query: rows with values that JSON supports.

    Attributes:
        columns: types of the columns by name, in order.
    """

    columns: Mapping[str, pa.DataType] = field(default_factory=dict)


def ask_sql(engine: Engine, query: str) -> Answer:
    """Run a query.

    Raises:
        UsageError: the text is not a query, or two columns have the same name.
        KgroupError: the query failed.
    """
    found = engine.query(query)
    names = found.schema.names
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"two columns are called {name}; rename one of them with AS")
    values = [_values(column, engine.has_infinities) for column in found.columns]
    rows = [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]
    columns = dict(zip(names, found.schema.types, strict=True))
    return Answer(tuple(rows), columns=columns)


def _values(column: pa.ChunkedArray, has_infinities: bool) -> list[Any]:
    """Return the values of a column as JSON values; see `Engine.has_infinities`."""
    try:
        return [_plain(value) for value in column.to_pylist()]
    except _NOT_IN_PYTHON:
        return [_scalar(value, has_infinities) for value in column]


_NOT_IN_PYTHON = (ArithmeticError, LookupError, TypeError, ValueError, pa.ArrowException)
"""Errors of pyarrow for values without a Python equivalent, such as times after the year 9999."""


def _plain(value: Any) -> Any:
    """Return a value as a JSON value: numbers as numbers, bytes in base64, other types as text.

    Numbers that JSON cannot represent (NaN and the infinities) are null.
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        return _number(value)
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return _length(0, 0, value // timedelta(microseconds=1) * 1000)
    if isinstance(value, pa.MonthDayNano):
        return _length(*value)
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return str(value)


def _scalar(value: pa.Scalar, has_infinities: bool) -> Any:
    """Return a value as `_plain` does, or its text if Python has no type for it."""
    try:
        return _plain(value.as_py())
    except _NOT_IN_PYTHON:
        kind = value.type
    if pa.types.is_struct(kind):
        return {
            kind.field(at).name: _scalar(value[at], has_infinities) for at in range(kind.num_fields)
        }
    if pa.types.is_map(kind):
        return [
            [_scalar(each, has_infinities) for each in entry.values()] for entry in value.values
        ]
    if pa.types.is_nested(kind) and hasattr(value, "values"):
        return [_scalar(value, has_infinities) for value in value.values]
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return _instant(value, has_infinities)
    if pa.types.is_time(kind) or pa.types.is_duration(kind):
        nanoseconds = value.value * _NANOSECONDS[kind.unit]
        if pa.types.is_duration(kind):
            return _length(0, 0, nanoseconds)
        minutes, rest = divmod(nanoseconds, 60 * 10**9)
        return f"{minutes // 60:02}:{minutes % 60:02}:{_seconds(rest, 2)}"
    if pa.types.is_union(kind):
        return _scalar(value.value, has_infinities)
    return repr(value)  # repr shows values that pyarrow cannot convert


_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def _instant(value: pa.Scalar, has_infinities: bool) -> str:
    """Return the text of a date or time outside the years 1 to 9999."""
    kind, number = value.type, value.value
    largest = 2 ** (31 if kind == pa.date32() else 63) - 1
    if has_infinities and abs(number) == largest:
        return "infinity" if number > 0 else "-infinity"
    if pa.types.is_date(kind):
        return str(np.datetime64(number, "D"))
    # via seconds: NumPy takes the type's smallest number as no time
    per_second = 10**9 // _NANOSECONDS[kind.unit]
    whole, rest = divmod(number, per_second)
    text = str(np.datetime64(whole, "s"))
    text += f".{rest:0{len(str(per_second)) - 1}}" if rest else ""
    return text if kind.tz is None else f"{text}+00:00"


def _length(months: int, days: int, nanoseconds: int) -> str:
    """Return a length of time in ISO 8601."""
    parts = [f"{months}M" if months else "", f"{days}D" if days else ""]
    if nanoseconds or not (months or days):
        parts.append(f"T{_seconds(nanoseconds)}S")
    return "P" + "".join(parts)


def _seconds(nanoseconds: int, width: int = 1) -> str:
    """Return a number of seconds with as many decimals as it has."""
    whole, rest = divmod(abs(nanoseconds), 10**9)
    text = f"{whole:0{width}}.{rest:09}".rstrip("0").rstrip(".")
    return f"-{text}" if nanoseconds < 0 else text


def _number(value: Decimal) -> int | float | Decimal | None:
    """Return a decimal number as the simplest type with exactly its value."""
    if not value.is_finite():
        return None
    if value == value.to_integral_value():
        return int(value)
    near = float(value)
    return near if Decimal(repr(near)) == value else value
