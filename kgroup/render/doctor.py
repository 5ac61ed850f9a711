"""What `kgroup doctor` found, as a sheet."""

from functools import partial

from kgroup.render.cell import Column, Kind
from kgroup.render.sheet import Sheet

__all__ = ["DIAGNOSIS_COLUMNS", "diagnosis_sheet"]

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
