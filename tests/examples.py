"""How much a property test tries: a little in `make check`, eight times as much in `make test`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

_TIMES = int(os.environ.get("KGROUP_TEST_EXAMPLES", "1"))

_T = TypeVar("_T")


def examples(few: int, many: int | None = None) -> int:
    """Give the number of examples: `few` in `make check`, eight times as many or `many` else."""
    return few if _TIMES == 1 else many or few * _TIMES


def some_of(cases: Sequence[_T], one_in: int) -> Sequence[_T]:
    """Give one in so many (8 at most) of the cases; in `make test` all of them."""
    return cases[:: max(1, one_in // _TIMES)]
