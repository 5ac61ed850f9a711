"""Inputs for what writes reports: random ones of groups, with hostile names, in every form.

An input is the name of a table or page and the seed of its report, see `tests.render.every_form`.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from tests.fuzz.mutation import Input
from tests.fuzz.run import Lane
from tests.render.every_form import EVERY

_MARK = b"report of "


def _make_report(seed: int, number: int) -> Input:
    """Make an input; equal numbers of equal seeds give equal ones."""
    random = Random(f"report/{seed}/{number}")
    name = random.choice(list(EVERY))
    return Input(name, _MARK + f"{name} {random.getrandbits(64)}\n".encode(), random)


def _check_report(data: bytes, folder: Path, random: Random) -> None:
    """Write the report of an input in every form, and read back what has a form to be read.

    Raises:
        Exception: anything.
    """
    name, _, seed = data.removeprefix(_MARK).decode().partition(" ")
    EVERY[name](Random(seed))


def _write_every_report(folder: Path) -> None:
    for write in EVERY.values():
        write(Random(0))


REPORTS = Lane(_make_report, _check_report, _write_every_report, _MARK)
"""Random reports."""
