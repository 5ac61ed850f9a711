"""Tables of SQL databases that store offsets, for kgroup and for applications."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kgroup.source.sql.application import OffsetStore as OffsetStore
    from kgroup.source.sql.fencing import FencedError as FencedError
    from kgroup.source.sql.fencing import generation_of as generation_of
    from kgroup.source.sql.layout import TableLayout as TableLayout

_HOMES = {
    "FencedError": "fencing",
    "OffsetStore": "application",
    "TableLayout": "layout",
    "generation_of": "fencing",
}


def __getattr__(name: str) -> Any:
    """Import the public names for applications on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
