"""Tables of a TOML file, read field by field; errors have the line of the field."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from datetime import date, time
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, TypeVar

from kgroup.errors import InputError
from kgroup.model.cluster import TOPIC_NAME, is_topic_name
from kgroup.model.instant import duration_ms
from kgroup.user_toml import TomlLimitError, parse_toml

T = TypeVar("T")


class TomlTable:
    """A table.

    Args:
        data: fields and values.
        name: name for messages, such as "member 2"; "" for the whole file.
        lines: line number of each field.
        line: line number of the table.
        file: file name for messages.
        inner: line numbers of the fields of inner tables, by the name of the table.
    """

    def __init__(
        self,
        data: Mapping[str, Any],
        name: str,
        lines: Mapping[str, int],
        line: int,
        file: str,
        inner: Mapping[str, Mapping[str, int]] = MappingProxyType({}),
    ) -> None:
        self.data = data
        self.name = name
        self._lines = lines
        self._line = line
        self._file = file
        self._inner = inner
        self._elsewhere: dict[str, TomlTable] = {}
        """Tables from which fields were taken, by field."""

    def __contains__(self, field: str) -> bool:
        return field in self.data

    def with_data(self, data: Mapping[str, Any]) -> TomlTable:
        """Return a table at the same place with other fields."""
        return TomlTable(data, self.name, self._lines, self._line, self._file)

    def with_others(self, table: TomlTable, fields: Collection[str]) -> TomlTable:
        """Return the table with additional fields of another table, which keep their place."""
        made = self.with_data({name: table.data[name] for name in fields} | dict(self.data))
        made._elsewhere = dict.fromkeys(set(fields) - set(self.data), table)
        return made

    def error(self, field: str | None, expected: str, found: object) -> InputError:
        """Return an error with the place, the expected and the actual value."""
        return self.wrong(field, f"expected {expected}, found {_said(found)}")

    def wrong(self, field: str | None, what: str) -> InputError:
        """Return an error with the place and the fault."""
        if field in self._elsewhere:
            return self._elsewhere[field].wrong(field, what)
        line = self._lines.get(field or "", self._line)
        where = " ".join(filter(None, (self.name, field)))
        place = ": ".join(filter(None, (self._file, f"line {line}", where)))
        return InputError(f"{place}: {what}", path=self._file)

    def only(self, known: Collection[str]) -> None:
        """Refuse unknown fields."""
        for field in self.data:
            if field not in known:
                close = get_close_matches(field, known)
                expected = close or sorted(known)
                raise self.error(field, " or ".join(expected), field)

    def _read(
        self, field: str, default: T | None, read: Callable[[Any], T | None], expected: str
    ) -> T:
        if field not in self.data:
            if default is None:
                raise self.error(None, f"{field} ({expected})", "none")
            return default
        value = read(self.data[field])
        if value is None:
            raise self.error(field, expected, self.data[field])
        return value

    def text(self, field: str, default: str | None = None) -> str:
        """Read a non-empty string."""
        return self._read(field, default, _text, "text")

    def legal_name(self, field: str, name: str) -> str:
        """Return a name that is legal for a Kafka topic, and so in a path of ZooKeeper."""
        if not is_topic_name(name):
            raise self.error(field, TOPIC_NAME, name)
        return name

    def number(
        self, field: str, default: int | None = None, least: int = 0, most: int = (1 << 31) - 1
    ) -> int:
        """Read an integer."""
        return self._read(
            field,
            default,
            lambda value: value if type(value) is int and least <= value <= most else None,
            f"a number from {least:,} to {most:,}",
        )

    def fraction(self, field: str, default: float) -> float:
        """Read a non-negative number."""
        return self._read(
            field,
            default,
            lambda value: (
                float(value) if type(value) in (int, float) and 0 <= value < 1e9 else None
            ),
            "a number from 0 to a billion",
        )

    def flag(self, field: str, *, default: bool) -> bool:
        """Read a boolean."""
        text = self._read(
            field,
            str(default),
            lambda value: str(value) if isinstance(value, bool) else None,
            "true or false",
        )
        return text == "True"

    def duration(self, field: str, default: int | None = None) -> int:
        """Read a duration: milliseconds, or text with units; return milliseconds."""
        return self._read(
            field,
            default,
            _length_ms,
            "milliseconds below 2^53, or a text such as 90s, 2m30s or 2d",
        )

    def interval(self, field: str) -> int:
        """Read a positive duration, for something that repeats."""
        if length_ms := self.duration(field):
            return length_ms
        raise self.error(field, "at least 1 ms", self.data[field])

    def int_interval(self, field: str) -> int:
        """Read a positive duration that Kafka keeps as an int."""
        if (length_ms := self.interval(field)) < 1 << 31:
            return length_ms
        raise self.error(field, f"at most {(1 << 31) - 1:,} ms", self.data[field])

    def choice(self, field: str, words: Collection[str], default: str | None = None) -> str:
        """Read one of several words."""
        return self._read(
            field, default, lambda value: value if value in words else None, " or ".join(words)
        )

    def texts(self, field: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """Read a list of strings, or a single string."""
        return self._read(field, default, _texts, "a list of texts")

    def table(self, field: str) -> TomlTable:
        """Read an inner table; empty if it does not exist."""
        data = self.data.get(field, {})
        if not isinstance(data, Mapping):
            raise self.error(field, "a table", data)
        line = self._lines.get(field, self._line)
        name = " ".join(filter(None, (self.name, field)))
        return TomlTable(data, name, self._inner.get(field, {}), line, self._file)


def read_toml(text: str, file: str) -> tuple[TomlTable, dict[str, list[TomlTable]]]:
    """Read a file; return the top table, and arrays of tables by name.

    Args:
        text: content of the file.
        file: file name for messages.

    Raises:
        InputError: the text is not TOML, or a field is both a table and an array of tables.
    """
    try:
        data = parse_toml(text)
        data = {name: _flat_each(value) for name, value in data.items()}
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{file}: expected TOML, found: {error}", path=file) from None
    except TomlLimitError as error:
        raise InputError(f"{file}: line {error.line}: {error}", path=file) from None
    arrays: dict[str, list[TomlTable]] = {}
    places = _places(text)
    top: dict[str, Any] = {}
    for name, value in data.items():
        if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            arrays[name] = []
            for number, item in enumerate(value):
                line, fields = places.get((name, number), (1, {}))
                arrays[name].append(
                    TomlTable(_flat(item), f"{name} {number + 1}", fields, line, file)
                )
        else:
            top[name] = value
    lines = {name: line for (name, _), (line, _) in places.items()} | places[("", 0)][1]
    inner = {name: fields for (name, _), (_, fields) in places.items()}
    return TomlTable(top, "", lines, 1, file, inner), arrays


def _places(text: str) -> dict[tuple[str, int], tuple[int, dict[str, int]]]:
    """Return the line of each table and of its fields."""
    lines: dict[tuple[str, int], tuple[int, dict[str, int]]] = {("", 0): (1, {})}
    fields = lines[("", 0)][1]
    counts: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\[?\s*([\w.\"-]+)\s*\]", line):
            name = header[1].strip('"')
            place = (name, counts.get(name, 0))
            counts[name] = place[1] + 1
            fields = lines.setdefault(place, (number, {}))[1]
        elif field := re.match(r"\s*([\w.\"-]+)\s*=", line):
            fields.setdefault(field[1].replace('"', ""), number)
    return lines


def _flat(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Join dotted names such as `group.instance.id`, which TOML reads as nested tables."""
    flat: dict[str, Any] = {}
    for name, value in data.items():
        if isinstance(value, dict) and not (prefix == "" and name == "set"):
            flat.update(_flat(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = _flat(value) if isinstance(value, dict) else value
    return flat


def _flat_each(value: Any) -> Any:
    """Join dotted names in a table, or in each table of a list."""
    if isinstance(value, dict):
        return _flat(value)
    return [_flat_each(item) for item in value] if isinstance(value, list) else value


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _length_ms(value: object) -> int | None:
    if type(value) is int and 0 <= value < 1 << 53:
        return value
    length_ms = duration_ms(value) if isinstance(value, str) else None
    return length_ms if length_ms is not None and length_ms < 1 << 53 else None


def _texts(value: object) -> tuple[str, ...] | None:
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not values:
        return None
    return tuple(values) if all(isinstance(value, str) and value for value in values) else None


def _said(value: object) -> str:
    is_plain = value == "none" or isinstance(value, date | time)
    text = str(value) if is_plain else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
