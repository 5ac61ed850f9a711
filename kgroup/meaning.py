"""Meanings of fields, from the "Attributes:" sections of their classes' docstrings.

The entry of a field is the only place for its meaning: columns, JSON schemas and the tables of the
docs are generated from it. It starts with a summary; details follow a semicolon::

    assignor: assignor that the group uses; None if it has none.

The entry "type, state: as in `Group`." takes the meanings of two fields from another class.

Modules are parsed, not imported: completion explains columns of classes that take long to import.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

_SECTION = re.compile(r"^Attributes:\n((?:\n*    .*)+)", re.MULTILINE)
_ENTRY = re.compile(r"^    (\w+(?:,\s+\w+)*): (.*(?:\n+     .*)*)", re.MULTILINE)
_REFERENCE = re.compile(r"as in `([\w.]+)`\.")


@cache
def meanings(name: str) -> Mapping[str, str]:
    """Return the meanings of the fields of a class and of its bases; None is written as null.

    Args:
        name: module and name of the class.
    """
    module, _, own_name = name.rpartition(".")
    source = _source(module)
    entries: dict[str, str] = {}
    for base in source.bases.get(own_name, ()):
        if (other := source.full_name(base)).startswith(f"{module.partition('.')[0]}."):
            entries |= meanings(other)
    section = _SECTION.search(source.docstrings.get(own_name, ""))
    for fields, text in _ENTRY.findall(section[1]) if section else ():
        words = " ".join(text.split())
        reference = _REFERENCE.fullmatch(words)
        others = meanings(source.full_name(reference[1])) if reference else {}
        meaning = re.sub(r"\bNone\b", "null", words.replace("``", "`").removesuffix("."))
        for field in re.split(r",\s+", fields):
            entries[field] = others[field] if reference else meaning
    return entries


def summary(row: str, field: str) -> str:
    """Return the meaning of a field without details and markup, for lists of columns.

    Args:
        row: module and name of the class.
        field: name of the field.

    Raises:
        KeyError: the class has no entry for the field.
    """
    return meanings(row)[field].partition("; ")[0].replace("`", "")


class _Source(NamedTuple):
    """Docstrings and bases of a module's classes, by name, and the origins of imported names."""

    module: str
    docstrings: dict[str, str]
    bases: dict[str, list[str]]
    origins: dict[str, str]

    def full_name(self, name: str) -> str:
        return name if "." in name else self.origins.get(name, f"{self.module}.{name}")


@cache
def _source(module: str) -> _Source:
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    source = _Source(module, {}, {}, {})
    for node in ast.walk(ast.parse(Path(spec.origin).read_text("utf-8"))):
        match node:
            case ast.ClassDef():
                source.docstrings[node.name] = ast.get_docstring(node) or ""
                source.bases[node.name] = [ast.unparse(base) for base in node.bases]
            case ast.Assign([ast.Attribute(ast.Name(name), "__doc__")], ast.Constant(str(text))):
                source.docstrings[name] = text
            case ast.ImportFrom(str(origin)):
                for alias in node.names:
                    source.origins[alias.asname or alias.name] = f"{origin}.{alias.name}"
    return source
