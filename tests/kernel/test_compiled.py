"""Interrupts while functions are compiled; the functions themselves are tested where they serve."""

import os
import sys
from collections.abc import Callable, Iterator
from signal import SIGTERM, signal
from types import FrameType, SimpleNamespace
from typing import Any, NoReturn

import pytest

from kgroup.kernel import compiled


class _Function:
    """Stands in for a function of numba's, whose compiler loses what is raised in callbacks."""

    def __init__(self, on_compile: Callable[[], None]) -> None:
        self._on_compile = on_compile

    def compile(self, signature: object) -> None:
        try:
            self._on_compile()
        except BaseException as error:  # as ctypes does in the callbacks of LLVM
            print(f"ignored: {error!r}")


@pytest.fixture
def terminating() -> Iterator[None]:
    def leave(signum: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(143)

    before = signal(SIGTERM, leave)
    yield
    signal(SIGTERM, before)


@pytest.mark.slow
@pytest.mark.usefixtures("terminating")
def test_a_signal_ends_the_compilation(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    compiled_names: list[str] = []

    def compile_first() -> None:
        os.kill(os.getpid(), SIGTERM)
        compiled_names.append("first")

    def compile_second() -> None:
        compiled_names.append("second")

    functions: Any = SimpleNamespace(
        first=_Function(compile_first), second=_Function(compile_second)
    )
    monkeypatch.setitem(sys.modules, "kgroup.kernel.stand_in", functions)
    with pytest.raises(SystemExit, match="143"):
        compiled.compile_all({"first": ("stand_in", 1), "second": ("stand_in", 1)})
    assert compiled_names == ["first"]
    assert capsys.readouterr().out == ""
