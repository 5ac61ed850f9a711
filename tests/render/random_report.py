"""Reports of any kind with random values, made from the types of their fields.

Rows of one kind have fields in which none of them says anything, and others in which all say the
same, as real ones have: tables leave such columns out. Texts are such as break tables.
"""

from __future__ import annotations

import json
import types
from collections.abc import Collection, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from functools import cache
from random import Random
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import pyarrow as pa

from kgroup.columnar.schema import COMMIT_TYPES, DECODED
from kgroup.model.group import GroupState, GroupType
from kgroup.operation.assign.outcome import AssignPlan

T = TypeVar("T")

_WORDS = (
    "orders",
    "client-1",
    "__consumer_offsets",
    "a.b",
    "日本",
    "e\u0301",
    "\U0001f600",
    "-",
    "0",
)
_HOSTILE = (
    *(
        "|",
        "||",
        "!",
        "!!",
        "<b>",
        "</td>",
        "&amp;",
        "&",
        '"',
        "'",
        "\\",
        "\\|",
        "`",
        "``",
        "$",
        "~",
    ),
    *(
        "*",
        "**",
        "_",
        "__",
        "#",
        "%",
        "{",
        "}",
        "{{",
        "}}",
        "[",
        "]",
        "[[a]]",
        "^",
        "+",
        "=",
        "===",
    ),
    *(
        "\n",
        "\r",
        "\t",
        "\0",
        "\x1b[31m",
        "\x9b2J",
        "\x7f",
        "\u202e",
        "\u2028",
        "\ud800",
        ",",
        ";",
        ":",
    ),
    *(
        " ",
        "  ",
        "\u00a0",
        "--",
        "---",
        "|-",
        "|=",
        "://",
        "http://a.b/?c&d",
        "@",
        "...",
        "^^",
        "..",
    ),
)
_NUMBERS = (0, 1, -1, 7, 60_000, 1_700_000_000_004, (1 << 63) - 1, -(1 << 63))
_PARTITIONS = (0, 1, 2, 3, 7, 11, 12, (1 << 31) - 1)
_MOST_ROWS = 3
_WORDS_OF = {
    "by": ("type", "transaction", "group", "batch", "damage"),
    "rebalance": ("eager", "cooperative", "incremental"),
}
"""Fields that hold one of a few words."""


class RandomReport:
    """A source of them, which another `Random` of the same seed gives again."""

    def __init__(
        self, random: Random, fixed: Mapping[type, tuple[Collection[str], Collection[str]]] = {}
    ) -> None:
        """Take how to draw.

        Args:
            random: draws.
            fixed: for rows of some types, of which there are several then, the fields in which
                none says anything, as far as their types allow, and those in which all say the
                same; otherwise both are random ones.
        """
        self._random = random
        self._fixed = fixed
        self._is_hostile = random.choice([0.0, 0.2, 0.6])

    def one(self, kind: type[T]) -> T:
        """Make an object of a dataclass or a named tuple."""
        return self.rows(kind, count=1)[0]

    def rows(self, kind: type[T], *, count: int | None = None) -> tuple[T, ...]:
        """Make so many of a dataclass or named tuple, or else a few, or none."""
        draw = self._random
        hints: dict[str, Any] = fields_of(cast("Any", kind))
        if kind in self._fixed:
            count = _MOST_ROWS
            blank, common = self._fixed[kind]
        else:
            blank, common = self._some(hints), self._some(hints)
        shared = {name: self._value(hints[name], name) for name in common}
        shared |= {
            name: draw.choice(blanks)
            for name in blank
            if (blanks := blank_values(name, hints[name]))
        }
        own = {name: hint for name, hint in hints.items() if name not in shared}
        rows = [
            kind(**self._fitting(hints, {**shared, **self._values(own)}))
            for _ in range(draw.randint(0, _MOST_ROWS) if count is None else count)
        ]
        return tuple(map(self._sound, rows))

    def records(self) -> pa.RecordBatch:
        """Make rows of decoded records; of offset commits the columns hold all there is."""
        draw = self._random
        names = DECODED.names
        blank, common = self._some(names), self._some(names)
        count = draw.randint(0, _MOST_ROWS)
        columns = []
        for field in DECODED:
            shared = None if field.name in blank else self._record_value(field)
            columns.append(
                [
                    shared if field.name in (*blank, *common) else self._record_value(field)
                    for _ in range(count)
                ]
            )
        rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        for row in rows:
            row["offset"] = draw.choice(_NUMBERS)
            row["type"] = draw.choice([*COMMIT_TYPES, "GroupMetadata", "Unknown"])
            if row["type"] in COMMIT_TYPES:
                row |= {
                    "key_json": None,
                    "value_json": None,
                    "value_version": draw.choice([None, 0, 3]),
                }
                row |= {"key_type": COMMIT_TYPES.index(row["type"])}
        return pa.RecordBatch.from_pylist(rows, schema=DECODED)

    def _record_value(self, field: pa.Field) -> Any:
        draw = self._random
        if pa.types.is_integer(field.type):
            limit = 1 << field.type.bit_width - 1
            return draw.choice(
                [number for number in (None, *_NUMBERS) if -limit <= (number or 0) < limit]
            )
        if not field.name.endswith("_json"):
            return draw.choice([None, self.text().encode("utf-8", "replace").decode()])
        text = self.text().encode("utf-8", "replace").decode()
        data = {"version": draw.choice([None, 1]), "data": {text: text}}
        return draw.choice([None, json.dumps(data), json.dumps({**data, "data": None})])

    def text(self) -> str:
        """Make a name or another text."""
        draw = self._random
        if draw.random() >= self._is_hostile:
            return draw.choice(_WORDS)
        return "".join(draw.choices(_HOSTILE + _WORDS, k=draw.randint(0, 4)))

    def _some(self, names: Collection[str]) -> list[str]:
        share = self._random.choice([0.0, 0.1, 0.5, 0.9])
        return [name for name in names if self._random.random() < share]

    def _value(self, hint: Any, name: str = "") -> Any:
        draw = self._random
        origin, args = get_origin(hint), get_args(hint)
        if origin in (Union, types.UnionType):
            return self._value(draw.choice(args), name)
        if origin is Literal:
            return draw.choice(args)
        if origin is tuple and args[1:] != (...,):
            return tuple(self._value(arg, name) for arg in args)
        if origin is not None and issubclass(origin, Mapping):
            keys = {self._value(args[0]): None for _ in range(draw.randint(0, 3))}
            return {key: self._value(args[1], name) for key in keys}
        if origin is not None:
            if _is_row(args[0]):
                return self.rows(args[0])
            return tuple(self._value(args[0], name) for _ in range(draw.randint(0, 3)))
        if hint is Any:
            return draw.choice([None, 1, self.text(), {self.text(): [self.text(), None, 1.5]}])
        if hint in (None, type(None)):
            return None
        if _is_row(hint):
            return self.one(hint)
        if issubclass(hint, Enum):
            return draw.choice(list(hint))
        if hint is bool:
            return draw.random() < 0.5
        if hint is int:
            return draw.choice(_PARTITIONS if name == "partition" else _NUMBERS)
        if hint is float:
            return draw.choice([0.0, 0.5, 12.25])
        assert hint is str, hint
        return draw.choice(_WORDS_OF[name]) if name in _WORDS_OF else self.text()

    def _values(self, hints: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self._value(hint, name) for name, hint in hints.items()}

    def _fitting(self, hints: Mapping[str, Any], values: dict[str, Any]) -> dict[str, Any]:
        """Give a group a state that groups of its type have, or none where its row allows that."""
        kind, state = values.get("type"), values.get("state")
        if isinstance(kind, GroupType) and isinstance(state, GroupState):
            unknown = [None] if type(None) in get_args(hints["state"]) else []
            values["state"] = self._random.choice([*unknown, *sorted(kind.states)])
        return values

    def _sound(self, row: T) -> T:
        """Let what belongs together agree, where a page relies on it."""
        if isinstance(row, AssignPlan):
            return cast("T", self._sound_plan(row))
        return row

    def _sound_plan(self, plan: AssignPlan) -> AssignPlan:
        members = tuple({member.member_id: member for member in plan.members}.values())
        ids = [member.member_id for member in members]
        shares = {name: self._value(tuple[tuple[str, int], ...], "partition") for name in ids}
        threads = {(name, 0): shares[name] for name in ids}
        left = {member.member_id: () for member in plan.departed}
        return replace(
            plan,
            members=members if plan.assignment else (),
            before=left
            | {name: self._value(tuple[tuple[str, int], ...], "partition") for name in ids},
            assignment=shares if plan.assignment else None,
            threads=plan.threads and threads,
        )


def blank_values(name: str, hint: Any) -> list[object]:
    """Return the values of a field that say nothing."""
    if name in _WORDS_OF:
        return []
    choices = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    blanks: list[object] = [None] if type(None) in choices else []
    blanks += [""] if str in choices else []
    return blanks + [() for choice in choices if get_args(choice)[1:] == (...,)]


def _is_row(hint: Any) -> bool:
    return is_dataclass(hint) or hasattr(hint, "_fields")


@cache
def fields_of(kind: Any) -> dict[str, Any]:
    """Return the types of the fields that make an object."""
    hints = get_type_hints(kind)
    if not is_dataclass(kind):
        return hints
    return {field.name: hints[field.name] for field in fields(kind) if field.init}
