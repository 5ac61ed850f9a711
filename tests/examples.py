"""How much a test tries: a little in `make check`, more in `make test`, most in `make oracle`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

_TIMES = int(os.environ.get("KGROUP_TEST_EXAMPLES", "1"))
_IN_DEPTH = bool(os.environ.get("KGROUP_ORACLE_CASES"))

_T = TypeVar("_T")


def examples(few: int, many: int | None = None) -> int:
    """Return the number of examples: `few` in `make check`, four times as many or `many` else."""
    return few if _TIMES == 1 else many or few * _TIMES


def some_of(cases: Sequence[_T], one_in: int) -> Sequence[_T]:
    """Give one in so many of the cases; in `make test` eight times as many, all where it can."""
    return cases[:: one_in if _TIMES == 1 else max(1, one_in // 8)]


def in_depth(deep: _T, usual: _T) -> _T:
    """Give `deep` in `make oracle`, and `usual` else: versions of a broker, numbers of cases."""
    return deep if _IN_DEPTH else usual
