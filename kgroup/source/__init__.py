"""Where groups, offsets and records come from.

kafka-python's packages import each other: its connections bring its producer, consumer, admin
client and all their messages with them. So the code of the packages in `_PUT_OFF` runs only when a
name is asked for that it defines. That saves 0.11 s of the 0.47 s CPU of a command that asks a
broker (20 starts).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from importlib.abc import Loader

_PUT_OFF: Mapping[str, str | None] = {"kafka": None, "kafka.protocol.admin": "groups"}
"""Packages, each with the module in it where names are looked for first."""


class _PutOff:
    """Loads a package without running its code yet."""

    def __init__(self, loader: Any, first: str | None) -> None:
        self._loader = loader
        self._first = first

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Leave it to the machinery."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Give the module a `__getattr__` (PEP 562) that runs the code."""
        import logging

        def find(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            if self._first is not None:
                part = __import__(f"{module.__name__}.{self._first}", fromlist=[name])
                if hasattr(part, name):
                    return getattr(part, name)
            if vars(module).pop("__getattr__", None) is not None:
                self._loader.exec_module(module)
            return getattr(module, name)

        vars(module)["__getattr__"] = find
        # As kafka-python's own code does, or else Python prints what it logs.
        logging.getLogger(module.__name__).addHandler(logging.NullHandler())


class _Finder:
    """Finds the packages in `_PUT_OFF`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`, which takes long to import."""
        if fullname not in _PUT_OFF:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None:
            spec.loader = cast("Loader", _PutOff(spec.loader, _PUT_OFF[fullname]))
        return spec


sys.meta_path.insert(0, _Finder())
