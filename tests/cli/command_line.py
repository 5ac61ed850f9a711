"""What a test's command line came to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Cli = Callable[..., "Result"]


@dataclass(frozen=True)
class Result:
    """What a command line came to.

    Attributes:
        status: exit status.
        out: standard output.
        err: standard error.
    """

    status: int
    out: str
    err: str
