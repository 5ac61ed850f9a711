"""The tables of docs/output.md and of pages beside it, and the fields that they have to name."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_type_hints

from kgroup.history.query.past_group import PastDescription
from kgroup.operation.describe import GroupDescription
from kgroup.render.assignment_object import PlanObject, RunObject

_DOCS = Path(__file__).parents[2] / "docs"
PAGE = "\n".join(
    (_DOCS / name).read_text("utf-8") for name in ("output.md", "assign.md", "history.md")
)
EXTENDED: dict[Any, Any] = {RunObject: PlanObject, PastDescription: GroupDescription}
"""Classes whose tables have only what they add to another class."""


def tables(kind: str, page: str = PAGE) -> dict[str, list[list[str]]]:
    """Rows of the tables that are marked with ``<!-- kind: dotted name -->``."""
    found = {}
    for name, body in re.findall(rf"<!-- {kind}: (\S+) -->\n\n((?:\|.*\n)+)", page):
        lines = body.splitlines()[2:]
        found[name] = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return found


def load(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)


def field_names(name: str) -> list[str]:
    kind = load(name)
    extended = get_type_hints(EXTENDED[kind]) if kind in EXTENDED else {}
    return [field for field in get_type_hints(kind) if field not in extended]


def rows_under(head: str, page: str = PAGE) -> dict[str, str]:
    """First and second cells of the table with this head."""
    body = page.partition(head)[2].partition("\n\n")[0]
    cells = [line.strip("|").split(" | ") for line in body.strip().splitlines()[1:]]
    return {row[0].strip(" `"): row[1].strip() for row in cells}


def reachable(root: Any) -> Iterator[Any]:
    """Dataclasses that a JSON document of `root` holds, itself included."""
    yield root
    for hint in get_type_hints(root).values():
        for part in {hint, *get_args(hint), *(a for h in get_args(hint) for a in get_args(h))}:
            if dataclasses.is_dataclass(part):
                yield from reachable(part)
