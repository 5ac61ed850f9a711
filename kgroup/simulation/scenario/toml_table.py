"""Tables of a TOML file that are read field by field, with the line of what is wrong."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from datetime import date, time
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, TypeVar

from kgroup.errors import InputError
from kgroup.model.instant import duration_ms
from kgroup.user_toml import TomlLimitError, parse_toml

T = TypeVar("T")

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class TomlTable:
    """One table.

    Args:
        data: what is in it.
        name: for messages: "member 2"; "" of the whole file.
        lines: of the fields, by name.
        line: of the table itself.
        file: for messages.
        inner: lines of the fields of tables inside, by their names.
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
        """Where fields stand that were taken from another table."""

    def __contains__(self, field: str) -> bool:
        return field in self.data

    def with_data(self, data: Mapping[str, Any]) -> TomlTable:
        """Make a table that stands in the same place and has other fields."""
        return TomlTable(data, self.name, self._lines, self._line, self._file)

    def with_others(self, table: TomlTable, fields: Collection[str]) -> TomlTable:
        """Make a table that has some fields of another one too, where they stand."""
        made = self.with_data({name: table.data[name] for name in fields} | dict(self.data))
        made._elsewhere = dict.fromkeys(set(fields) - set(self.data), table)
        return made

    def error(self, field: str | None, expected: str, found: object) -> InputError:
        """Make an error that says where it is, what was expected and what was found."""
        return self.wrong(field, f"expected {expected}, found {_said(found)}")

    def wrong(self, field: str | None, what: str) -> InputError:
        """Make an error that says where it is, and what is wrong."""
        if field in self._elsewhere:
            return self._elsewhere[field].wrong(field, what)
        line = self._lines.get(field or "", self._line)
        where = " ".join(filter(None, (self.name, field)))
        place = ": ".join(filter(None, (self._file, f"line {line}", where)))
        return InputError(f"{place}: {what}", path=self._file)

    def only(self, known: Collection[str]) -> None:
        """Refuse fields that are not known."""
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
        """Read a text that is not empty."""
        return self._read(field, default, _text, "text")

    def legal_name(self, field: str, name: str) -> str:
        """Return a name of a topic, or of what stands in a path, that Kafka allows."""
        if not _LEGAL_NAME.fullmatch(name) or name in (".", ".."):
            raise self.error(field, "letters, digits, '.', '_' and '-', at most 249", name)
        return name

    def number(
        self, field: str, default: int | None = None, least: int = 0, most: int = (1 << 31) - 1
    ) -> int:
        """Read a whole number."""
        return self._read(
            field,
            default,
            lambda value: value if type(value) is int and least <= value <= most else None,
            f"a number from {least:,} to {most:,}",
        )

    def fraction(self, field: str, default: float) -> float:
        """Read a number that is not negative."""
        return self._read(
            field,
            default,
            lambda value: (
                float(value) if type(value) in (int, float) and 0 <= value < 1e9 else None
            ),
            "a number from 0 to a billion",
        )

    def flag(self, field: str, *, default: bool) -> bool:
        """Read whether something is so."""
        found = self._read(
            field,
            str(default),
            lambda value: str(value) if isinstance(value, bool) else None,
            "true or false",
        )
        return found == "True"

    def duration(self, field: str, default: int | None = None) -> int:
        """Read a length of time: milliseconds, or a text with units."""
        return self._read(
            field,
            default,
            _length_ms,
            "milliseconds below 2^53, or a text such as 90s, 2m30s or 2d",
        )

    def interval(self, field: str) -> int:
        """Read a length of time behind which something happens again: not 0."""
        if length_ms := self.duration(field):
            return length_ms
        raise self.error(field, "at least 1 ms", self.data[field])

    def choice(self, field: str, words: Collection[str], default: str | None = None) -> str:
        """Read one of some words."""
        return self._read(
            field, default, lambda value: value if value in words else None, " or ".join(words)
        )

    def texts(self, field: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """Read a list of texts; one alone is a list too."""
        return self._read(field, default, _texts, "a list of texts")

    def table(self, field: str) -> TomlTable:
        """Read a table inside; an empty one where it is not there."""
        data = self.data.get(field, {})
        if not isinstance(data, Mapping):
            raise self.error(field, "a table", data)
        line = self._lines.get(field, self._line)
        name = " ".join(filter(None, (self.name, field)))
        return TomlTable(data, name, self._inner.get(field, {}), line, self._file)


def read_toml(text: str, file: str) -> tuple[TomlTable, dict[str, list[TomlTable]]]:
    """Read a file: what stands in it beside arrays of tables, and these by name.

    Args:
        text: of the file.
        file: its name, for messages.

    Raises:
        InputError: it is no TOML, or a field is no array of tables and a table at once.
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
        if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
            arrays[name] = []
            for number, each in enumerate(value):
                line, fields = places.get((name, number), (1, {}))
                arrays[name].append(
                    TomlTable(_flat(each), f"{name} {number + 1}", fields, line, file)
                )
        else:
            top[name] = value
    lines = {name: line for (name, _), (line, _) in places.items()} | places[("", 0)][1]
    inner = {name: found for (name, _), (_, found) in places.items()}
    return TomlTable(top, "", lines, 1, file, inner), arrays


def _places(text: str) -> dict[tuple[str, int], tuple[int, dict[str, int]]]:
    """Find the line of each table, and those of its fields."""
    found: dict[tuple[str, int], tuple[int, dict[str, int]]] = {("", 0): (1, {})}
    fields = found[("", 0)][1]
    counts: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\[?\s*([\w.\"-]+)\s*\]", line):
            name = header[1].strip('"')
            place = (name, counts.get(name, 0))
            counts[name] = place[1] + 1
            fields = found.setdefault(place, (number, {}))[1]
        elif field := re.match(r"\s*([\w.\"-]+)\s*=", line):
            fields.setdefault(field[1].replace('"', ""), number)
    return found


def _flat(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Write `group.instance.id` as one name, which TOML takes for tables in tables."""
    flat: dict[str, Any] = {}
    for name, value in data.items():
        if isinstance(value, dict) and not (prefix == "" and name == "set"):
            flat.update(_flat(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = _flat(value) if isinstance(value, dict) else value
    return flat


def _flat_each(value: Any) -> Any:
    """Write the names in a table, or in each of several, as one."""
    if isinstance(value, dict):
        return _flat(value)
    return [_flat_each(each) for each in value] if isinstance(value, list) else value


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
    return tuple(values) if all(isinstance(each, str) and each for each in values) else None


def _said(value: object) -> str:
    is_plain = value == "none" or isinstance(value, date | time)
    text = str(value) if is_plain else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
