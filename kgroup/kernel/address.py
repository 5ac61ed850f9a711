"""Addresses of arrays, for compiled code: given where an array is what the code takes it for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


def address(name: str, array: np.ndarray[Any, Any], kind: type[np.generic], size: int = 0) -> int:
    """Return where an array of a type begins that has at least `size` elements, without gaps.

    Raises:
        ValueError: it is another one. That is a caller's mistake: no input leads to it.
    """
    if array.dtype != kind or not array.flags.c_contiguous or array.size < size:
        raise ValueError(
            f"{name}: expected {size} elements of {kind.__name__} without gaps, "
            f"found {array.size} of {array.dtype}."
        )
    return int(array.ctypes.data)
