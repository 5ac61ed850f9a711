"""The result of `kgroup doctor`, as a sheet and as a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kgroup.render.cell import Column, Kind, columns_of
from kgroup.render.sheet import Part, Sheet, Title, apart, summary

if TYPE_CHECKING:
    from kgroup.operation.doctor import Diagnosis

DIAGNOSIS_COLUMNS = columns_of(
    "kgroup.operation.doctor.Diagnosis",
    Column("kind", Kind.TEXT),
    Column("name", Kind.NAME),
    Column("condition", Kind.TEXT),
    Column("version", Kind.TEXT),
    Column("needed_for", Kind.TEXT),
    Column("reason", Kind.TEXT),
    Column("advice", Kind.TEXT),
)


_PROBLEM_COLUMNS = tuple(
    replace(column, value=lambda row: row.reason or "not installed")
    if column.name == "reason"
    else column
    for column in DIAGNOSIS_COLUMNS
)


def diagnoses_page(rows: Sequence[Diagnosis]) -> Iterable[Part]:
    """Return what is wrong, what answers, what is missing, and what is installed."""
    wrong = [row for row in rows if row.is_wrong]
    right = [row for row in rows if not row.is_wrong]
    packages = [row for row in right if row.kind in ("part", "program")]
    profiles = [row.name for row in right if row.kind == "profile"]
    asked = [row for row in right if row.kind in ("source", "broker")]
    nothing = "Nothing is wrong."
    if not (wrong or asked):
        nothing += " No cluster was asked: name one with -b, -C or --zookeeper."
    answer: list[Part] = [summary(f"Profile {name}") for name in profiles]
    return apart(
        page
        for page in (
            _table("Problems", _PROBLEM_COLUMNS, wrong, "reason", "advice") or [summary(nothing)],
            answer,
            _table("Reached", DIAGNOSIS_COLUMNS, asked, "condition"),
            _table(
                "Not installed",
                DIAGNOSIS_COLUMNS,
                [row for row in packages if row.condition != "ok"],
                *("needed_for", "advice"),
            ),
            _table(
                "Installed",
                DIAGNOSIS_COLUMNS,
                [row for row in packages if row.condition == "ok"],
                *("version", "needed_for"),
            ),
        )
        if page
    )


def _table(
    title: str, columns: tuple[Column, ...], rows: Sequence[Diagnosis], *names: str
) -> list[Part]:
    """Return a table with a title; nothing without rows."""
    if not rows:
        return []
    return [Title(title), Sheet.of(columns, rows).select(("name", *names)).without_blank()]
