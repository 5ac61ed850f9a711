"""The meanings of fields, read from docstrings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

import pytest

from kgroup.meaning import meanings, summary
from kgroup.render.cell import Column, Kind, columns_of


@dataclass(frozen=True)
class _Lake:
    """A lake.

    Attributes:
        name: what it is called, as on `maps`; None where nobody
            lives there.
        depth_m, width_m: in meters; ``{"raw"}`` else.
    """

    name: str | None
    depth_m: int
    width_m: int

    def swim(self) -> None:
        """Swim.

        Args:
            speed: not a field.
        """


class _Bare:
    """What has no fields."""


@dataclass(frozen=True)
class _Pond(_Lake):
    """A small one.

    Attributes:
        fish: how many.
    """

    fish: int


class _Object(TypedDict):
    """An object.

    Attributes:
        depth_m,
            width_m: as in `_Lake`.
        fish: as in `tests.test_meaning._Pond`.
    """

    depth_m: int
    width_m: int
    fish: int


def test_an_entry_is_one_text_for_each_of_its_fields() -> None:
    meters = 'in meters; `{"raw"}` else'
    assert meanings(f"{__name__}._Lake") == {
        "name": "what it is called, as on `maps`; null where nobody lives there",
        "depth_m": meters,
        "width_m": meters,
    }


def test_a_class_has_the_entries_of_its_bases_and_of_those_that_it_names() -> None:
    assert meanings(f"{__name__}._Pond") == {**meanings(f"{__name__}._Lake"), "fish": "how many"}
    own = {name: meanings(f"{__name__}._Lake")[name] for name in ("depth_m", "width_m")}
    assert meanings(f"{__name__}._Object") == {**own, "fish": "how many"}


def test_a_class_without_entries_has_none() -> None:
    assert meanings(f"{__name__}._Bare") == {}


def test_a_column_has_the_summary_of_its_field() -> None:
    row = f"{__name__}._Lake"
    assert summary(row, "name") == "what it is called, as on maps"
    name, depth, width = columns_of(
        row,
        Column("name", Kind.NAME),
        Column("depth_m", Kind.NUMBER, form="rounded"),
        Column("width_m", Kind.NUMBER, "how wide"),
    )
    assert name.description == "what it is called, as on maps"
    assert (depth.description, width.description) == ("in meters, rounded", "how wide")
    with pytest.raises(KeyError, match="fish"):
        summary(row, "fish")
