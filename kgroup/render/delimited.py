r"""Text with a separator between fields and one row a line: csv and tsv.

csv: RFC 4180 with ``\n`` between lines. A text is quoted where it holds a comma, a quote or a line
break, and where it is empty, so that it can be told from an unknown value, whose field is empty.

tsv: for shells. A text is written with the escapes of `visible`, so that a row is a line and a tab
ends a field; an unknown value is ``-`` (an empty field would be lost by ``read``), and a text that
is one dash is ``\x2d``.

On a terminal csv has these escapes too, so that no text can drive it; a pipe gets the texts as they
are.

Numbers are bare, times epoch milliseconds as the columns' names say, flags ``true`` and ``false``,
lists and objects JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kgroup.render.cell import UNKNOWN, Column, visible


@dataclass(frozen=True, slots=True)
class Delimited:
    """One of the two forms.

    Attributes:
        separator: between fields.
        unknown: field of an unknown value.
        special: regular expression (RE2 and Python) that finds the texts to be escaped.
        is_visible: whether texts are written with the escapes of `visible`.
    """

    separator: str
    unknown: str
    special: str
    is_visible: bool

    def escape(self, text: str) -> str:
        """Write one text as a field."""
        if self.is_visible:
            text = visible(text)
        if self.separator == "\t":
            return "\\x2d" if text == UNKNOWN else text
        if text == "" or any(character in text for character in ',"\r\n'):
            return '"' + text.replace('"', '""') + '"'
        return text


_CSV = Delimited(",", unknown="", special='^$|[,"\r\n]', is_visible=False)
_TSV = Delimited("\t", unknown=UNKNOWN, special="^-$|[^ -\\[\\]-~]", is_visible=True)
_CSV_ON_TERMINAL = Delimited(",", unknown="", special='^$|[,"]|[^ -\\[\\]-~]', is_visible=True)


def delimited(form: str, *, terminal: bool) -> Delimited:
    """Return the form called csv or tsv."""
    if form == "tsv":
        return _TSV
    return _CSV_ON_TERMINAL if terminal else _CSV


def delimited_table(
    form: Delimited, columns: Sequence[Column], rows: Iterable[Sequence[object]], *, headers: bool
) -> Iterator[str]:
    """Write rows of Python values, a line at a time."""
    if headers:
        yield form.separator.join(form.escape(column.name) for column in columns) + "\n"
    for row in rows:
        yield form.separator.join(_field(form, value) for value in row) + "\n"


def _field(form: Delimited, value: object) -> str:
    if value is None:
        return form.unknown
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return form.escape(value)
    import orjson

    return form.escape(orjson.dumps(value).decode())
