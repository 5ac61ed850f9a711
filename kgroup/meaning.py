"""What fields mean, as the docstrings of their classes say under "Attributes:".

An entry is the one place for the meaning of a field: columns, JSON schemas and the tables of the
docs are made of it. It says what the field has, and behind a semicolon details, as when None::

    assignor: assignor that the group uses; None where there is none.

The entry "type, state: as in `Group`." has the meanings of two fields of another class.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module

_SECTION = re.compile(r"^Attributes:\n((?:\n*    .*)+)", re.MULTILINE)
_ENTRY = re.compile(r"^    (\w+(?:,\s+\w+)*): (.*(?:\n+     .*)*)", re.MULTILINE)
_REFERENCE = re.compile(r"as in `([\w.]+)`\.")


@cache
def meanings(cls: type) -> Mapping[str, str]:
    """Return what the fields of a class and of its bases mean, with None as JSON has it."""
    entries: dict[str, str] = {}
    for base in cls.__bases__:
        entries |= meanings(base)
    section = _SECTION.search(inspect.cleandoc(cls.__doc__ or ""))
    for names, text in _ENTRY.findall(section[1]) if section else ():
        words = " ".join(text.split())
        reference = _REFERENCE.fullmatch(words)
        other = meanings(_class_named(reference[1], cls.__module__)) if reference else {}
        meaning = re.sub(r"\bNone\b", "null", words.replace("``", "`").removesuffix("."))
        entries |= {
            name: other[name] if reference else meaning for name in re.split(r",\s+", names)
        }
    return entries


def summary(row: str, field: str) -> str:
    """Return the meaning of a field without details and markup, for lists of columns.

    Args:
        row: module and name of the class.
        field: its name.

    Raises:
        KeyError: the class does not say it.
    """
    return meanings(_class_named(row))[field].partition("; ")[0].replace("`", "")


def _class_named(name: str, module: str = "") -> type:
    package, _, attribute = name.rpartition(".")
    home = import_module(package) if package else sys.modules[module]
    cls: type = getattr(home, attribute)
    return cls
