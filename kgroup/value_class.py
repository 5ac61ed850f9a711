"""Frozen value classes for objects created by the hundred thousand, such as committed offsets."""

from __future__ import annotations

from dataclasses import make_dataclass
from typing import TypeVar

from msgspec import Struct

T = TypeVar("T", bound=Struct)


def value_class(cls: type[T]) -> type[T]:
    """Make a msgspec Struct usable as a frozen dataclass with `replace`, `fields` and `asdict`.

    Compared with a dataclass, a Struct takes an eighth of the time to create, a third to compare
    and half to write as JSON. With dataclasses `offsets diff` of two files of 100,000 offsets takes
    2.67 s CPU instead of 1.94 s (12 runs each).
    """
    named = make_dataclass(cls.__name__, cls.__struct_fields__, init=False, repr=False, eq=False)
    cls.__dataclass_fields__ = named.__dataclass_fields__  # type: ignore[attr-defined]
    return cls
