"""Get the addresses of arrays for compiled code, after a check of their type and size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


def address(name: str, array: np.ndarray[Any, Any], kind: type[np.generic], size: int = 0) -> int:
    """Return the address of a contiguous array of a type with at least `size` elements.

    Raises:
        ValueError: the array is different. This is a bug in the caller: no input leads to it.
    """
    if array.dtype != kind or not array.flags.c_contiguous or array.size < size:
        raise ValueError(
            f"{name}: expected {size} elements of {kind.__name__} without gaps, "
            f"found {array.size} of {array.dtype}."
        )
    return int(array.ctypes.data)
