"""Values as text: table cells, shared columns, problem lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby
from operator import itemgetter
from typing import Any

from kgroup.model.cluster import TopicPartition
from kgroup.model.instant import rfc3339
from kgroup.model.problem import Problem

UNKNOWN = "-"

_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
HARMFUL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
"""What breaks a line, drives a terminal, reverses the reading order or is no character at all."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A value that was another one before, to be marked."""

    value: object


def unmarked(value: object) -> object:
    """Return the value of one that is to be marked, and any other as it is."""
    return value.value if isinstance(value, Changed) else value


class MarkedText(str):
    """The text of such a value: begins with a sign, and stands out on a terminal."""

    __slots__ = ()


class Kind(StrEnum):
    """How a column's values are written for people and aligned."""

    TEXT = "text"
    NAME = "name"
    """A text that identifies something: quoted where it is empty, a dash, or its ends are blank."""
    NUMBER = "number"
    TIME = "time"
    """Epoch milliseconds; RFC 3339 in tables."""
    DURATION = "duration"
    """Milliseconds."""
    AGE = "age"
    """Milliseconds, seldom few: in tables as days, hours, minutes or seconds."""
    FLAG = "flag"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    The name is the one of JSON and csv, so it ends in `_ms` where the values are milliseconds.
    Tables for people show times instead, under a `title` without that ending. `--columns` takes
    both.

    Attributes:
        name: stable, snake_case; of the answer to a user's query any text.
        kind: how its values are written.
        meaning: for lists of columns; empty: as the field of that name of the class `row`.
        value: what a row's object has in this column; by default the attribute of that name.
        is_reference: whether it is the id of something that has a table of its own, so that a few
            characters tell which one is meant.
        is_prose: whether it has sentences, which are folded on a terminal also where each field has
            a line of its own, and not left whole to be copied.
        stays: whether that it is blank in every row tells something, so that tables show it.
        form: how a text is made of the field, behind its meaning: "with commas between".
        row: module and name of the rows' class; see `columns_of`.
    """

    name: str
    kind: Kind
    meaning: str = ""
    value: Callable[[Any], object] | None = None
    is_reference: bool = False
    is_prose: bool = False
    stays: bool = False
    form: str = ""
    row: str = ""

    @property
    def description(self) -> str:
        """What the column has, for those who choose columns."""
        from kgroup.meaning import summary

        text = self.meaning or (summary(self.row, self.name) if self.row else "")
        return f"{text}, {self.form}" if self.form else text

    def of(self, item: Any) -> object:
        """Take the column's value from a row's object."""
        return getattr(item, self.name) if self.value is None else self.value(item)

    @property
    def title(self) -> str:
        """Head of the column in a table for people."""
        return visible(self.name.removesuffix("_ms"))


def columns_of(row: str, *columns: Column) -> tuple[Column, ...]:
    """Return columns of which those without a meaning have the one of their field.

    Args:
        row: module and name of the rows' class, which need not be loaded yet.
        columns: in order.
    """
    return tuple(
        column if column.meaning or column.row else replace(column, row=row) for column in columns
    )


def visible(text: str) -> str:
    r"""Write control characters, and what else could harm a line or a terminal, as escapes.

    ``\n``, ``\r``, ``\t``, ``\xNN``, ``\uNNNN``; a backslash is doubled, so that the text can be
    told from one that held the escape itself.
    """
    if text.isascii() and text.isprintable() and "\\" not in text:
        return text  # nearly always, and several times as fast
    return harmless(text.replace("\\", "\\\\"))


def harmless(text: str) -> str:
    """Write a message with the escapes of `visible`, but backslashes as they are."""
    return HARMFUL.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    return _ESCAPES.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def cell(value: object, kind: Kind) -> str:
    """Write a value for people; None is unknown."""
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
    return visible(str(value))


def cells(values: Sequence[object], kind: Kind) -> list[str]:
    """Write the values of a column, as `cell` does; values have to be hashable."""
    if kind is Kind.NUMBER:
        return [str(value) if type(value) is int else cell(value, kind) for value in values]
    written = {value: cell(value, kind) for value in set(values)}  # the same ones again and again
    return [written[value] for value in values]


def _duration(ms: int) -> str:
    return f"{ms // 1000} s" if ms % 1000 == 0 else f"{ms} ms"


def age(ms: int) -> str:
    """Write a length of time by its two largest units: "350 ms", "1.250 s", "2 h 5 min"."""
    if ms < 0:
        return f"-{age(-ms)}"
    if ms < 60_000:
        return f"{ms} ms" if ms < 1000 else f"{ms / 1000:.3f} s"
    seconds = ms // 1000
    for unit, size, smaller, part in (("d", 86400, "h", 3600), ("h", 3600, "min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit} {seconds % size // part} {smaller}"
    return f"{seconds // 60} min {seconds % 60} s"


def ranges(partitions: Iterable[TopicPartition]) -> str:
    """Write an assignment, with neighbours as ranges: ``orders 0-3,7; payments 1``.

    Args:
        partitions: by topic and number, in order.
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
    Kind.TIME: rfc3339,
    Kind.DURATION: _duration,
    Kind.AGE: age,
}
"""How numbers are written that are not written as they are."""


_MERMAID = str.maketrans({sign: f"#{ord(sign)};" for sign in '#;:"'})
"""Signs that mean something to Mermaid, as its entities."""


def mermaid_label(text: str) -> str:
    """Write a text so that Mermaid takes it for one."""
    return visible(text).translate(_MERMAID)


CLUSTER = Column("cluster", Kind.NAME, "name of the cluster in the warehouse")
GROUP = Column("group_id", Kind.NAME, "id of the group")
GROUP_TYPE = Column("group_type", Kind.TEXT)
TOPIC = Column("topic", Kind.TEXT, "name of the topic")
PARTITION = Column("partition", Kind.NUMBER, "partition of that topic")
PARTS = (Column("part", Kind.TEXT, ""), Column("text", Kind.TEXT, ""))
"""Columns of a table that has a kind of line in each row: why, run, else."""


def problem_line(problem: Problem) -> str:
    """Say where it is, what kind it is and why; a partition that the reason names not twice."""
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


def _user_partition(problem: Problem) -> str | None:
    """Return the topic of a user, and its partition, where the reason does not name them."""
    if problem.topic is None:
        return None
    name = problem.topic if problem.partition is None else f"{problem.topic}-{problem.partition}"
    if any(word.strip(".,:;") == name for word in problem.reason.split()):
        return None
    return f"topic {name!r}" if problem.partition is None else name
