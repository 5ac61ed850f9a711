"""What `kgroup doctor` found, as a sheet and as a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from kgroup.render.cell import Column, Kind
from kgroup.render.sheet import Part, Sheet, Title, apart

if TYPE_CHECKING:
    from kgroup.operation.doctor import Diagnosis

DIAGNOSIS_COLUMNS = (
    Column("kind", Kind.TEXT, "part, program, source or broker"),
    Column("name", Kind.NAME, "what it is called"),
    Column("condition", Kind.TEXT, "how it is: ok, missing or unreachable"),
    Column("version", Kind.TEXT, "that is installed"),
    Column("needed_for", Kind.TEXT, "what cannot be done without it"),
    Column("reason", Kind.TEXT, "why it does not answer"),
    Column("advice", Kind.TEXT, "what to do"),
)
diagnosis_sheet = partial(Sheet.of, DIAGNOSIS_COLUMNS)  # one row a thing


def diagnoses_page(rows: Sequence[Diagnosis]) -> Iterable[Part]:
    """Return what is installed, what is missing, and what was asked; a table for each."""
    diagnosis = [row for row in rows if row.kind in ("source", "broker")]
    others = [row for row in rows if row.kind not in ("source", "broker")]
    tables = {
        "Installed": ([row for row in others if row.condition == "ok"], ("version", "needed_for")),
        "Missing": ([row for row in others if row.condition != "ok"], ("needed_for", "advice")),
        "Asked": (diagnosis, ("condition", "reason")),
    }
    return apart(
        (Title(title), diagnosis_sheet(part).select(("name", *columns)).without_blank())
        for title, (part, columns) in tables.items()
        if part
    )
