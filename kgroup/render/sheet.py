"""A report as rows and columns, and its way into every form that has them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter

from kgroup.errors import UsageError, near_names
from kgroup.render.cell import Column, Kind, cell, cells, visible

_BLANK = frozenset({None, ""})
_UNKNOWN = frozenset({None})


@dataclass(frozen=True, slots=True)
class Sheet:
    """Rows of one kind.

    Attributes:
        columns: all that there are, in the order of csv and tsv.
        rows: a value for each column, hashable.
    """

    columns: tuple[Column, ...]
    rows: Iterable[Sequence[object]]

    @classmethod
    def of(cls, columns: tuple[Column, ...], items: Iterable[object]) -> Sheet:
        """Make a row of each item."""
        if len(columns) > 1 and all(column.value is None for column in columns):
            names = (column.name for column in columns)
            return cls(columns, list(map(attrgetter(*names), items)))  # in a third of the time
        values = [column.value or attrgetter(column.name) for column in columns]
        return cls(columns, [[value(item) for value in values] for item in items])

    def select(self, names: Sequence[str]) -> Sheet:
        """Keep the named columns, in that order; all where none is named."""
        if not names:
            return self
        return self._take(choose(self.columns, names))

    def without_blank(self) -> Sheet:
        """Leave out columns in which no row has a value or a text: they tell people nothing."""
        rows = list(self.rows)
        if not rows:
            return Sheet(self.columns, rows)
        telling = [
            index
            for index, values in enumerate(zip(*rows, strict=True))
            if self.columns[index].stays or not _blank(self.columns[index]).issuperset(values)
        ]
        return Sheet(self.columns, rows)._take(telling or range(len(self.columns)))

    def without_common(self, own: Collection[str]) -> tuple[Sheet, list[str]]:
        """Leave out what all of several rows have in common: said once, a table is readable.

        Args:
            own: columns that stay all the same, as the first one does.

        Returns:
            The rest, and what was left out: names and values.
        """
        rows = list(self.rows)
        kept, common = [], []
        for index, column in enumerate(self.columns):
            can_go = index > 0 and len(rows) > 1 and column.name not in own
            if can_go and len({row[index] for row in rows}) == 1:
                common.append(f"{column.title} {cell(rows[0][index], column.kind)}")
            else:
                kept.append(index)
        return Sheet(self.columns, rows)._take(kept), common

    def _take(self, indices: Sequence[int]) -> Sheet:
        columns = tuple(self.columns[index] for index in indices)
        if len(indices) == 1:
            return Sheet(columns, ([row[indices[0]]] for row in self.rows))
        return Sheet(columns, map(itemgetter(*indices), self.rows))


def _blank(column: Column) -> frozenset[str | None]:
    """Tell which values say nothing; that a name is empty does, and is shown by its quotes."""
    return _UNKNOWN if column.kind is Kind.NAME else _BLANK


def choose(columns: Sequence[Column], names: Sequence[str]) -> list[int]:
    """Find columns by their names, or by the titles that tables show.

    Raises:
        UsageError: a name that no column has.
    """
    known = {column.title: index for index, column in enumerate(columns)}
    known |= {column.name: index for index, column in enumerate(columns)}
    missing = [name for name in names if name not in known]
    if missing:
        there = ", ".join(column.name for column in columns)
        meant = near_names(missing[0], (column.name for column in columns))
        raise UsageError(f"no column {', '.join(missing)}; there are: {there}{meant}")
    return [known[name] for name in names]


def sheet_text(sheet: Sheet, form: str, *, headers: bool, terminal: bool) -> Iterator[str]:
    """Write a sheet as table, csv, tsv or one of `MARKUPS`."""
    if form in ("csv", "tsv"):
        from kgroup.render.delimited import delimited, delimited_table

        style = delimited(form, terminal=terminal)
        yield from delimited_table(style, sheet.columns, sheet.rows, headers=headers)
        return
    columns = sheet.columns
    texts = zip(
        *(
            cells(values, column.kind)
            for column, values in zip(columns, zip(*sheet.rows, strict=True), strict=False)
        ),
        strict=True,
    )
    if form != "table":
        from kgroup.render.markup import markup_table

        yield from markup_table(form, columns, texts, headers=headers)
        return
    from kgroup.render.table import plain_table, rich_table

    if terminal:
        yield from rich_table(columns, texts, headers=headers)
    else:
        yield plain_table(columns, texts, headers=headers)


def prose_text(text: str, *, terminal: bool) -> Iterator[str]:
    """Write paragraphs that have lines of some width already, beside tables."""
    lines = "\n".join(visible(line) for line in text.splitlines())
    if terminal:
        from kgroup.render.table import rich_prose

        yield rich_prose(lines)
    else:
        yield f"{lines}\n"


def title_text(
    title: str, form: str, *, level: int, terminal: bool, warns: bool = False
) -> Iterator[str]:
    """Write the title of a table or of a part, or a warning, as table or one of `MARKUPS`."""
    if form != "table":
        from kgroup.render.markup import markup_title

        yield markup_title(form, title, level)
    elif terminal:
        from kgroup.render.table import rich_title

        yield rich_title(title, warns=warns)
    else:
        yield f"{title}\n"
