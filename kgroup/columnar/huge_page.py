"""Huge pages of memory: numpy asks the system for them, and here they cost more than they bring."""

import ctypes

__all__ = ["refuse_huge_pages"]

_THP_DISABLE = 41
"""Number of Linux's `prctl`."""


def refuse_huge_pages() -> None:
    """Have the system give this process small pages, and processes that it starts.

    Columns are given back soon, and a huge page is cleared as a whole each time, also where little
    of it is used. This does nothing where the system is not Linux.
    """
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_THP_DISABLE, 1, 0, 0, 0)
