"""Sources of groups, committed offsets and records.

Modules of kafka-python import each other: its connections load its producer, consumer, admin client
and all their messages. The packages in `_PUT_OFF` are therefore executed only when one of their
names is used. That saves 0.11 s of the 0.47 s CPU of a command that queries a broker (20 starts).
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
"""Packages, each with the submodule in which names are looked up first."""


class _PutOff:
    """Loads a package without executing it yet."""

    def __init__(self, loader: Any, first: str | None) -> None:
        self._loader = loader
        self._first = first

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Use the default module creation."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Give the module a `__getattr__` (PEP 562) that executes it on first use."""
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
        # As in kafka-python's own code; without a handler, Python prints its log messages.
        logging.getLogger(module.__name__).addHandler(logging.NullHandler())


class _Finder:
    """Finds the packages in `_PUT_OFF`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`, which is slow to import."""
        if fullname not in _PUT_OFF:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None:
            spec.loader = cast("Loader", _PutOff(spec.loader, _PUT_OFF[fullname]))
        return spec


sys.meta_path.insert(0, _Finder())
