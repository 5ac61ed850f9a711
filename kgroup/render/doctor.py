"""The result of `kgroup doctor`, as a sheet and as a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kgroup.render.cell import Column, Kind, columns_of
from kgroup.render.sheet import Part, Sheet, Title, apart

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


def diagnoses_page(rows: Sequence[Diagnosis]) -> Iterable[Part]:
    """Return what is installed, what is missing, and what was checked, in a table each."""
    diagnosis = [row for row in rows if row.kind in ("source", "broker")]
    others = [row for row in rows if row.kind not in ("source", "broker")]
    tables = {
        "Installed": ([row for row in others if row.condition == "ok"], ("version", "needed_for")),
        "Missing": ([row for row in others if row.condition != "ok"], ("needed_for", "advice")),
        "Asked": (diagnosis, ("condition", "reason")),
    }
    return apart(
        (Title(title), Sheet.of(DIAGNOSIS_COLUMNS, part).select(("name", *columns)).without_blank())
        for title, (part, columns) in tables.items()
        if part
    )
