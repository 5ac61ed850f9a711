"""Answers about many groups, some groups at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain, groupby, islice
from operator import itemgetter
from typing import Protocol, TypeVar

from kgroup.history.sql.engine import Engine
from kgroup.operation.packed_rows import PackedBlock, PackedRows, pack


class _OfGroup(Protocol):
    @property
    def cluster(self) -> str: ...
    @property
    def group_id(self) -> str: ...


_Group = tuple[str, str]
_Row = TypeVar("_Row", bound=_OfGroup)
_Part = TypeVar("_Part")
_More = TypeVar("_More")
_Question = Callable[[Engine, _Part], tuple[list[_Row], _More]]
"""Returns rows, group by group, and something more."""


def _group_of(row: _OfGroup) -> _Group:
    return row.cluster, row.group_id


def answers_in_parts(
    engine: Engine,
    kind: type[_Row],
    question: _Question[_Part, _Row, _More],
    parts: Iterable[_Part],
) -> tuple[Sequence[_Row], list[_More]]:
    """Ask about some groups at a time; see `Engine.each`.

    Args:
        engine: query engine.
        kind: class of the rows.
        question: asked about each part.
        parts: the parts.

    Returns:
        The rows by cluster and group, packed if there are several parts; and what each part has
        more.
    """
    left = iter(parts)
    first = list(islice(left, 2))
    more: list[_More] = []
    if len(first) < 2:
        rows: list[_Row] = []
        for some, of_part in engine.each(question, first):
            rows += some
            more.append(of_part)
        return tuple(sorted(rows, key=_group_of)), more
    packed: list[tuple[_Group, PackedBlock]] = []
    for blocks, of_part in engine.each(partial(_packed, question), chain(first, left)):
        packed += blocks
        more.append(of_part)
    return PackedRows(kind, [block for _, block in sorted(packed, key=itemgetter(0))]), more


def _packed(
    question: _Question[_Part, _Row, _More], engine: Engine, part: _Part
) -> tuple[list[tuple[_Group, PackedBlock]], _More]:
    rows, more = question(engine, part)
    return [(group, pack(list(own))) for group, own in groupby(rows, _group_of)], more
