"""How much a property test tries: a little in `make check`, eight times as much in `make test`."""

import os

__all__ = ["examples"]

_TIMES = int(os.environ.get("KGROUP_TEST_EXAMPLES", "1"))


def examples(few: int) -> int:
    """Give the number of examples, of which `make check` tries so many."""
    return few * _TIMES
