"""Values as text: table cells, shared columns, problem lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from kgroup.model.instant import shown_time
from kgroup.model.problem import Problem
from kgroup.operation.report import first_names

if TYPE_CHECKING:
    from kgroup.model.cluster import TopicPartition

UNKNOWN = "-"

_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
HARMFUL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
"""Characters that break a line, control a terminal, reverse text, or are no characters at all."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A value that has changed and is to be marked."""

    value: object


def unmarked(value: object) -> object:
    """Return the value of a `Changed`; other values as they are."""
    return value.value if isinstance(value, Changed) else value


class MarkedText(str):
    """The text of a changed value: begins with a sign, and is highlighted on a terminal."""

    __slots__ = ()


class Kind(StrEnum):
    """How a column's values are written for people, and aligned."""

    TEXT = "text"
    NAME = "name"
    """An identifier; quoted if it is empty, a dash, or begins or ends with a blank."""
    NUMBER = "number"
    TIME = "time"
    """Epoch milliseconds; tables show RFC 3339 in the local zone, or in UTC."""
    DURATION = "duration"
    """Milliseconds."""
    AGE = "age"
    """Milliseconds, usually many; tables show days, hours, minutes or seconds."""
    ROUGH_AGE = "rough age"
    """Milliseconds until now; tables show them as `AGE` without fractions of a second."""
    FLAG = "flag"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    The name is the name in JSON and csv, so it ends in `_ms` if the values are milliseconds.
    Tables for people show times, under a `title` without this suffix. `--columns` accepts both.

    Attributes:
        name: stable name in snake_case; for the result of a user's query, any text.
        kind: how its values are written.
        meaning: text for lists of columns; if empty, that of the field of this name in the
            class `row`.
        value: returns the column's value from the object of a row; by default the attribute of
            this name.
        is_reference: whether the values are ids of something that has its own table, so that a
            few characters identify it.
        is_prose: whether the values are sentences, which a terminal wraps even if each field
            has its own line; other values are not wrapped, so that they can be copied.
        stays: whether tables show the column even if it is blank in every row.
        is_list: whether the values are counts with lists, such as "2: orders 0-1", which a narrow
            terminal cuts at the end.
        may_go_below: whether a terminal that has no room for the column writes it below the row.
        rank: order in which a narrow terminal leaves out columns, those of the highest rank first;
            0: never.
        is_alarm: whether values other than 0 stand out on a terminal.
        form: how the text is made from the field, appended to its meaning: "with commas
            between".
        row: module and name of the rows' class; see `columns_of`.
    """

    name: str
    kind: Kind
    meaning: str = ""
    value: Callable[[Any], object] | None = None
    is_reference: bool = False
    is_prose: bool = False
    stays: bool = False
    is_list: bool = False
    may_go_below: bool = False
    rank: int = 0
    is_alarm: bool = False
    form: str = ""
    row: str = ""

    @property
    def description(self) -> str:
        """The meaning of the column, for lists of columns."""
        from kgroup.meaning import summary

        text = self.meaning or (summary(self.row, self.name) if self.row else "")
        return f"{text}, {self.form}" if self.form else text

    def of(self, item: Any) -> object:
        """Return the column's value from the object of a row."""
        return getattr(item, self.name) if self.value is None else self.value(item)

    @property
    def title(self) -> str:
        """The column's title in tables for people."""
        return visible(self.name.removesuffix("_ms"))


def columns_of(row: str, *columns: Column) -> tuple[Column, ...]:
    """Return columns; those without a meaning take that of their field.

    Args:
        row: module and name of the rows' class, which need not be loaded yet.
        columns: the columns, in order.
    """
    return tuple(
        column if column.meaning or column.row else replace(column, row=row) for column in columns
    )


def visible(text: str) -> str:
    r"""Return a text in which control and other harmful characters are escaped.

    The escapes are ``\n``, ``\r``, ``\t``, ``\xNN``, ``\uNNNN``; a backslash is doubled, so
    that the text can be distinguished from one that contains the escape itself.
    """
    if text.isascii() and text.isprintable() and "\\" not in text:
        return text  # the usual case, several times as fast
    return harmless(text.replace("\\", "\\\\"))


def harmless(text: str) -> str:
    """Return a message with the escapes of `visible`, except that backslashes stay."""
    return HARMFUL.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    return _ESCAPES.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def cell(value: object, kind: Kind) -> str:
    """Return a value as text for people; None is unknown."""
    if isinstance(value, Changed):
        return MarkedText(f"*{cell(value.value, kind)}")
    if value is None:
        return UNKNOWN
    if isinstance(value, str):
        text = visible(value)
        hidden = text in ("", UNKNOWN) or text != text.strip()
        return f"'{text}'" if hidden and kind is Kind.NAME else text
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return _WRITERS.get(kind, str)(value)
    if isinstance(value, float) and kind is Kind.DURATION:
        return f"{value:g} ms"
    return visible(str(value))


def cells(values: Sequence[object], kind: Kind) -> list[str]:
    """Return the values of a column as `cell` does; values must be hashable."""
    if kind is Kind.NUMBER:
        return [str(value) if type(value) is int else cell(value, kind) for value in values]
    written = {value: cell(value, kind) for value in set(values)}  # values are often repeated
    return [written[value] for value in values]


def _duration(ms: int) -> str:
    return f"{ms // 1000} s" if ms % 1000 == 0 else f"{ms} ms"


_AGES = (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1))
"""Units of an age, with their seconds, each with the next smaller one."""


def age(ms: int) -> str:
    """Return a duration in its two largest units, rounded down: "1.250 s", "1 min", "2 h 5 min"."""
    if ms < 0:
        return f"-{age(-ms)}"
    if ms < 60_000:
        return f"{ms} ms" if ms < 1000 else f"{ms / 1000:.3f} s"
    seconds = ms // 1000
    unit, size, smaller, part = next(units for units in _AGES if seconds >= units[1])
    rest = seconds % size // part
    return f"{seconds // size} {unit}{f' {rest} {smaller}' if rest else ''}"


def rough_age(ms: int) -> str:
    """Return a duration as `age` does, without fractions of a second; "0 s" if it is negative."""
    return f"{max(ms, 0) // 1000} s" if ms < 60_000 else age(ms)


def ranges(partitions: Iterable[TopicPartition]) -> str:
    """Return an assignment with ranges of neighbouring partitions: ``orders 0-3,7; payments 1``.

    Args:
        partitions: partitions by topic and number, in order.
    """
    return "; ".join(
        f"{topic} {','.join(_runs(number for _, number in own))}"
        for topic, own in groupby(partitions, key=itemgetter(0))
    )


def _runs(numbers: Iterable[int]) -> Iterator[str]:
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        own = [number for _, number in run]
        yield str(own[0]) if len(own) == 1 else f"{own[0]}-{own[-1]}"


_WRITERS: Mapping[Kind, Callable[[int], str]] = {
    Kind.TIME: shown_time,
    Kind.DURATION: _duration,
    Kind.AGE: age,
    Kind.ROUGH_AGE: rough_age,
}
"""Writers of the kinds whose numbers are not written as they are."""


_MERMAID = str.maketrans({sign: f"#{ord(sign)};" for sign in '#;:"'})
"""Mermaid's special characters, and the entities that replace them."""


def mermaid_label(text: str) -> str:
    """Return a text with Mermaid's special characters escaped."""
    return visible(text).translate(_MERMAID)


CLUSTER = Column("cluster", Kind.NAME, "name of the cluster in the warehouse", rank=9)
GROUP = Column("group_id", Kind.NAME, "group id")
GROUP_TYPE = Column("group_type", Kind.TEXT)
TOPIC = Column("topic", Kind.TEXT, "topic name")
PARTITION = Column("partition", Kind.NUMBER, "partition number")
PARTS = (Column("part", Kind.TEXT, ""), Column("text", Kind.TEXT, ""))
"""Columns of a table with a different kind of line in each row: why, run, else."""


def problem_line(problem: Problem) -> str:
    """Return place, kind and reason of a problem; the partition only if the reason lacks it."""
    known = [
        template.format(value)
        for template, value in (
            ("{}", problem.path),
            ("byte {}", problem.position),
            ("group {!r}", problem.group_id),
            ("{}", _user_partition(problem)),
            ("partition {} of __consumer_offsets", problem.offsets_partition),
            ("offset {}", problem.offset),
        )
        if value is not None
    ]
    where = [", ".join(known)] if known else []
    return ": ".join([*where, problem.kind, problem.reason])


def problem_texts(problems: Iterable[Problem]) -> list[str]:
    """Return a line for each problem; problems that differ only in the partition share a line."""
    alike: dict[object, list[Problem]] = {}
    for problem in problems:
        alike.setdefault(_line_without_partition(problem) or object(), []).append(problem)
    return [
        problem_line(first) + (f" Likewise: {first_names(rest, _partition_name)}." if rest else "")
        for first, *rest in alike.values()
    ]


def _line_without_partition(problem: Problem) -> str | None:
    """Return the line without the name of the partition; None if it is about more or less."""
    name = _partition_name(problem)
    if not name or (problem.path, problem.position, problem.offset) != (None, None, None):
        return None
    number = problem.offsets_partition
    line = problem_line(problem).replace(f"partition {number} of __consumer_offsets", name)
    return re.sub(rf"(?<![\w.-]){re.escape(name)}(?!\w)", "-", line)


def _partition_name(problem: Problem) -> str:
    if problem.offsets_partition is not None:
        return f"__consumer_offsets-{problem.offsets_partition}"
    return "" if problem.partition is None else f"{problem.topic}-{problem.partition}"


def _user_partition(problem: Problem) -> str | None:
    """Return topic and partition of a user's topic, unless the reason names them."""
    if problem.topic is None:
        return None
    name = problem.topic if problem.partition is None else f"{problem.topic}-{problem.partition}"
    if any(word.strip(".,:;") == name for word in problem.reason.split()):
        return None
    return f"topic {name!r}" if problem.partition is None else name
