"""Interrupts while functions are compiled; the functions themselves are tested where they serve."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from signal import SIGTERM, signal
from threading import Event
from types import FrameType, SimpleNamespace
from typing import Any, NoReturn

import pytest

from kgroup.kernel import compiled


class _Function:
    """Stands in for a function of numba's."""

    def __init__(self, on_compile: Callable[[], None]) -> None:
        self._on_compile = on_compile

    @property
    def py_func(self) -> None:
        """What is compiled: read as soon as that begins."""
        self._on_compile()


@pytest.fixture
def terminating() -> Iterator[None]:
    def leave(signum: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(143)

    before = signal(SIGTERM, leave)
    yield
    signal(SIGTERM, before)


@pytest.mark.slow
@pytest.mark.usefixtures("terminating")
def test_a_signal_ends_the_compilation_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in the midst of a function: one alone takes most of the time."""
    compiled_names: list[str] = []
    is_over = Event()

    def compile_first() -> None:
        os.kill(os.getpid(), SIGTERM)
        is_over.wait(10)
        compiled_names.append("first")

    def compile_second() -> None:
        compiled_names.append("second")

    functions: Any = SimpleNamespace(
        first=_Function(compile_first), second=_Function(compile_second)
    )
    monkeypatch.setitem(sys.modules, "kgroup.kernel.stand_in", functions)
    with pytest.raises(SystemExit, match="143"):
        compiled.compile_all({"first": ("stand_in", 1), "second": ("stand_in", 1)})
    assert compiled_names == []
    is_over.set()
