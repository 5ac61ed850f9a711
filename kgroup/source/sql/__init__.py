"""Tables of SQL databases that hold offsets, for kgroup and for applications."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kgroup.source.sql.application import FencedError, OffsetStore, generation_of
    from kgroup.source.sql.layout import TableLayout

__all__ = ["FencedError", "OffsetStore", "TableLayout", "generation_of"]


def __getattr__(name: str) -> Any:
    """Import what an application asks for only then."""
    if name in ("FencedError", "OffsetStore", "generation_of"):
        from kgroup.source.sql import application

        return getattr(application, name)
    if name == "TableLayout":
        from kgroup.source.sql.layout import TableLayout

        return TableLayout
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
