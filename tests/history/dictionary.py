"""The data dictionary of the warehouse, made of `kgroup.history.warehouse.table`.

python -m tests.history.dictionary      # write it into docs/reference/warehouse.md
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from textwrap import fill

import pyarrow as pa

from kgroup.history.warehouse.table import ASSIGNED, PLACE, PLACE_MEANINGS, TABLES, WarehouseTable

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "warehouse.md"
BEGIN = "<!-- made by: python -m tests.history.dictionary -->\n"
END = "<!-- end -->\n"

_NAMES = {
    pa.int16(): "int16",
    pa.int32(): "int32",
    pa.int64(): "int64",
    pa.string(): "text",
    pa.date32(): "date",
    pa.list_(pa.string()): "list of texts",
    ASSIGNED: "assigned",
}


_Column = tuple[str, tuple[pa.DataType, str]]
_USES = Counter(column for table in TABLES.values() for column in table.columns.items())
_SHARED = [column for column, uses in _USES.items() if uses > 2]


def dictionary() -> str:
    """Return the part of the page that tells of tables and columns."""
    return "".join(_lines())


def _lines() -> Iterator[str]:
    place = [(field.name, (field.type, PLACE_MEANINGS[field.name])) for field in PLACE]
    yield "\n## Shared columns\n\nEach table has `cluster` and `date`, and names the others.\n\n"
    yield from _rows([*place, *_SHARED])
    for table in TABLES.values():
        day = "" if table.day == "time_ms" else f" `date` is the day of `{table.day}`"
        day += "; null until the interval has ended." if table.are_open_dayless else "." * bool(day)
        yield f"\n## {table.name}\n\n{fill(table.row + day, 100)}\n\n"
        yield from _columns(table)
    fields = ", ".join(f"`{field.name}`" for field in ASSIGNED.value_type)
    told = (
        f"`assigned` is a list of structs: {fields}. A struct stands for the partitions of a topic "
        "(by name, id or both), or the tasks of a subtopology in a role (active, standby, warmup)."
    )
    yield f"\n{fill(told, 100)}\n"


def _columns(table: WarehouseTable) -> Iterator[str]:
    columns = table.columns.items()
    if shared := ", ".join(f"`{column[0]}`" for column in columns if column in _SHARED):
        yield f"{fill(f'Shared: {shared}.', 100)}\n\n"
    yield from _rows([column for column in columns if column not in _SHARED])


def _rows(columns: Iterable[_Column]) -> Iterator[str]:
    yield "| column | type | meaning |\n|---|---|---|\n"
    for name, (kind, meaning) in columns:
        yield f"| `{name}` | {_NAMES[kind]} | {meaning.replace('|', chr(92) + '|')} |\n"


if __name__ == "__main__":
    text = PAGE.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(before + BEGIN + dictionary() + END + after, "utf-8")
