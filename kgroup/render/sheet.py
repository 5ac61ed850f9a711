"""Tables, and the pages that they stand on.

A page is a sequence of parts: tables, headings, paragraphs. They say what is shown;
`kgroup.render.form` writes them in the form that the user chose.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from operator import attrgetter, itemgetter
from typing import NamedTuple, TypeAlias

from kgroup.errors import UsageError, near_names
from kgroup.render.cell import PARTS, Column, Kind, cell

_BLANK = frozenset({None, ""})
_UNKNOWN = frozenset({None})


class Head(Enum):
    """When a table has a head with the titles of its columns."""

    CHOSEN = auto()
    """Unless the user chose `--no-headers`."""
    IN_DOCUMENTS = auto()
    """Only in documents: the titles of properties and values say nothing."""
    ALWAYS = auto()


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table: rows of one kind.

    Attributes:
        columns: columns, in the order of csv and tsv.
        rows: rows with a hashable value for each column.
        head: when the table has a head.
        commands: commands for each row, which stand below it, ready to paste; not in documents.
    """

    columns: tuple[Column, ...]
    rows: Iterable[Sequence[object]]
    head: Head = Head.CHOSEN
    commands: Sequence[Sequence[str]] = ()

    @classmethod
    def of(cls, columns: tuple[Column, ...], items: Iterable[object]) -> Sheet:
        """Return a sheet with a row for each item."""
        if len(columns) > 1 and all(column.value is None for column in columns):
            names = (column.name for column in columns)
            return cls(columns, list(map(attrgetter(*names), items)))  # takes a third of the time
        values = [column.value or attrgetter(column.name) for column in columns]
        return cls(columns, [[value(item) for value in values] for item in items])

    @classmethod
    def of_parts(
        cls,
        columns: tuple[Column, ...],
        wholes: Iterable[tuple[Sequence[object], Iterable[object]]],
    ) -> Sheet:
        """Return a sheet with a row for each part of several wholes, such as members of groups.

        Args:
            columns: columns of the sheet.
            wholes: for each whole, the first cells of all its rows, and its parts.
        """
        values = [column.value or attrgetter(column.name) for column in columns]
        rows: list[Sequence[object]] = []
        for first, parts in wholes:
            own = values[len(first) :]
            rows += [[*first, *[value(part) for value in own]] for part in parts]
        return cls(columns, rows)

    def select(self, names: Sequence[str]) -> Sheet:
        """Return the sheet with the named columns, in that order; with all if none is named."""
        if not names:
            return self
        return self._take(choose(self.columns, names))

    def chosen(self, names: Sequence[str]) -> Sheet:
        """Return the columns that a user chose, of which none is left out; all if none is named."""
        if not names:
            return self
        sheet = self.select(names)
        return replace(sheet, columns=tuple(replace(column, rank=0) for column in sheet.columns))

    def without_blank(self) -> Sheet:
        """Return the sheet without columns in which no row has a value or a text."""
        rows = list(self.rows)
        whole = replace(self, rows=rows)
        if not rows:
            return whole
        telling = [
            index
            for index, values in enumerate(zip(*rows, strict=True))
            if self.columns[index].stays or not _blank(self.columns[index]).issuperset(values)
        ]
        return whole._take(telling or range(len(self.columns)))

    def without_common(self, own: Collection[str]) -> tuple[Sheet, list[str]]:
        """Return the sheet without columns in which all of several rows have the same value.

        Args:
            own: names of columns that stay in any case, as the first column does.

        Returns:
            The sheet, and titles and values of the columns left out.
        """
        rows = list(self.rows)
        kept, common = [], []
        for index, column in enumerate(self.columns):
            can_go = index > 0 and len(rows) > 1 and column.name not in own
            if can_go and len({row[index] for row in rows}) == 1:
                common.append(f"{column.title} {cell(rows[0][index], column.kind)}")
            else:
                kept.append(index)
        return replace(self, rows=rows)._take(kept), common

    def _take(self, indices: Sequence[int]) -> Sheet:
        columns = tuple(self.columns[index] for index in indices)
        if len(indices) == 1:
            return replace(self, columns=columns, rows=([row[indices[0]]] for row in self.rows))
        return replace(self, columns=columns, rows=map(itemgetter(*indices), self.rows))


def _blank(column: Column) -> frozenset[str | None]:
    """Return the values that count as blank; not an empty name, as tables show its quotes."""
    return _UNKNOWN if column.kind is Kind.NAME else _BLANK


def choose(columns: Sequence[Column], names: Sequence[str]) -> list[int]:
    """Return the indices of columns by their names, or by their titles in tables.

    Raises:
        UsageError: no column has this name.
    """
    known = {column.title: index for index, column in enumerate(columns)}
    known |= {column.name: index for index, column in enumerate(columns)}
    missing = [name for name in names if name not in known]
    if missing:
        known_names = ", ".join(column.name for column in columns)
        similar = near_names(missing[0], (column.name for column in columns))
        raise UsageError(f"no column {', '.join(missing)}; there are: {known_names}{similar}")
    return [known[name] for name in names]


@dataclass(frozen=True, slots=True)
class Title:
    """A heading.

    Attributes:
        text: text of one line.
        level: 2, or 3 for a part below a heading of level 2.
        warns: whether it is a warning, which is red on a terminal.
    """

    text: str
    level: int = 2
    warns: bool = False


class Word(NamedTuple):
    """A part of a verdict.

    Attributes:
        text: text, with the blanks around it.
        style: style on a terminal.
        is_id: whether it is an id that a narrow terminal may shorten.
        is_optional: whether a narrow terminal may leave it out.
    """

    text: str
    style: str = ""
    is_id: bool = False
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """The summary of a group in one sentence, which a terminal wraps between words."""

    words: tuple[Word, ...]

    @property
    def text(self) -> str:
        """The sentence."""
        return "".join(word.text for word in self.words)


@dataclass(frozen=True, slots=True)
class Prose:
    """Paragraphs; a terminal wraps them to its own width."""

    text: str


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines that are never wrapped, such as those of a drawing: texts, each with its style."""

    lines: Sequence[Sequence[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class Either:
    """Parts that differ between tables (on a terminal or in a pipe) and documents.

    Attributes:
        table: parts for the format "table".
        document: parts for every other format.
    """

    table: tuple[Part, ...] = ()
    document: tuple[Part, ...] = ()


Part: TypeAlias = str | Title | Verdict | Prose | Lines | Sheet | Either
"""A part of a page; a text, such as a blank line, is written as it is."""


def facts(rows: Iterable[Sequence[object]], columns: tuple[Column, ...] = PARTS) -> Sheet:
    """Return a table of properties and their values."""
    return Sheet(columns, rows, Head.IN_DOCUMENTS)


def summary(text: str) -> Either:
    """Return a paragraph, which is a table of its own in documents."""
    return Either((Prose(text),), (facts([("summary", text)]),))


def section(title: str, *parts: Part, level: int = 3) -> Iterator[Part]:
    """Yield a blank line, a heading and the parts below it."""
    yield from ("\n", Title(title, level), *parts)


def apart(pages: Iterable[Iterable[Part]]) -> Iterator[Part]:
    """Yield the parts of several pages, with a blank line between pages."""
    for number, page in enumerate(pages):
        if number:
            yield "\n"
        yield from page
