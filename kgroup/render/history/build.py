"""What a build did, as a sheet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kgroup.render.cell import Column, Kind
from kgroup.render.column import CLUSTER
from kgroup.render.sheet import Sheet

if TYPE_CHECKING:
    from kgroup.history.build.build import ClusterReport

BUILD_COLUMNS = (
    CLUSTER,
    Column("table", Kind.TEXT, "name of the table"),
    Column("new_row_count", Kind.NUMBER, "how many rows were added"),
    Column("row_count", Kind.NUMBER, "how many it has now"),
    Column("file_count", Kind.NUMBER, "in how many files"),
    Column("file_bytes", Kind.NUMBER, "their size"),
)


def build_sheet(reports: Sequence[ClusterReport]) -> Sheet:
    """A row for each table of each cluster; those without a row are left out."""
    return Sheet(
        BUILD_COLUMNS,
        [
            [report.cluster, *(getattr(table, column.name) for column in BUILD_COLUMNS[1:])]
            for report in reports
            for table in report.tables
            if table.row_count
        ],
    )


def build_line(report: ClusterReport) -> str:
    """Say in a line what is new in a cluster's tables."""
    tables = (
        f"{table.new_row_count:,} {table.table}" for table in report.tables if table.new_row_count
    )
    return f"{report.cluster}: {', '.join(tables) or 'nothing new'}"
