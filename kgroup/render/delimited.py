r"""Text with a separator between fields and one row per line: csv and tsv.

csv: RFC 4180 with ``\n`` between lines. A text is quoted if it contains a comma, a quote or
a line break, and if it is empty: the field of an unknown value is empty and unquoted.

tsv: for shells. A text is written with the escapes of `visible`, so that each row is one
line and tabs only separate fields; an unknown value is ``-`` (``read`` would drop an empty
field), and a text that consists of one dash is ``\x2d``.

On a terminal csv has these escapes too, so that no text can control it; a pipe gets the
original texts.

Numbers are bare, times are epoch milliseconds as the names of their columns say, flags are
``true`` and ``false``, lists and objects are JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kgroup.render.cell import UNKNOWN, Column, visible


@dataclass(frozen=True, slots=True)
class Delimited:
    """One of the two formats.

    Attributes:
        separator: text between fields.
        unknown: field of an unknown value.
        special: regular expression (RE2 and Python) that finds the texts to escape.
        is_visible: whether texts are written with the escapes of `visible`.
    """

    separator: str
    unknown: str
    special: str
    is_visible: bool

    def escape(self, text: str) -> str:
        """Return a text as a field."""
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
    """Return the format csv or tsv."""
    if form == "tsv":
        return _TSV
    return _CSV_ON_TERMINAL if terminal else _CSV


def delimited_table(
    form: Delimited, columns: Sequence[Column], rows: Iterable[Sequence[object]], *, headers: bool
) -> Iterator[str]:
    """Yield rows of Python values as text, one line at a time."""
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
