"""Interrupts while functions are compiled; the functions themselves are tested where they serve."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from signal import SIGTERM, signal
from threading import Event
from types import FrameType, SimpleNamespace
from typing import Any, NoReturn
from zipfile import ZipFile

import pytest

from kgroup.kernel import compiled
from kgroup.kernel.compiled import code_key


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


# ---- machine code is compiled anew when what it was made of has changed, and not otherwise


ROOT = Path(__file__).parents[2]
_NUMBER = re.compile(r"^((?:[A-Z_]+|__version__) = .*?)(\d)", re.MULTILINE)


@cache
def really_imported() -> tuple[list[str], int]:
    """What of the package is there when all that is compiled was imported, and schemas read."""
    code = f"""if True:
        import sys
        from importlib import import_module
        for module in {sorted(compiled.MODULES)!r}:
            import_module(module)
        from kgroup.protocol.message import schema
        print(schema.versions.cache_info().misses + schema.fields.cache_info().misses)
        print(*(name for name in sys.modules if name.split(".")[0] == "kgroup"))
    """
    process = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    reads, names = process.stdout.splitlines()
    return sorted(names.split()), int(reads)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(
        ROOT / "kgroup", tmp_path / "kgroup", ignore=shutil.ignore_patterns("sample", "*.pyc")
    )
    return tmp_path


def key_of(root: Path) -> int:
    return code_key(root / "kgroup")


def test_a_copy_has_the_same_key(copy: Path) -> None:
    assert key_of(copy) == key_of(ROOT)


def test_a_zip_file_has_a_key_of_its_own(copy: Path, tmp_path: Path) -> None:
    """There are no files in it to read: `glob` finds none."""
    keys = set()
    for number in range(2):
        (copy / "kgroup" / "errors.py").write_text(f"_CONSTANT = {number}\n")
        path = tmp_path / f"{number}.zip"
        with ZipFile(path, "w") as archive:
            for file in (copy / "kgroup").rglob("*.py"):
                archive.write(file, file.relative_to(copy))
        keys.add(key_of(path))
    assert len(keys) == 2


def test_every_module_that_is_imported_counts(copy: Path) -> None:
    """Its constants may be frozen in the code; `kgroup` itself has our version."""
    modules, _ = really_imported()
    assert {"kgroup", "kgroup.kernel.log", "kgroup.protocol.batch.batch_v2"} < {*modules}
    keys = {key_of(copy)}
    changed = 0
    for module in modules:
        path = copy / module.replace(".", "/")
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        text = path.read_text()
        new, constants = _NUMBER.subn(lambda match: f"{match[1]}1{match[2]}", text, count=1)
        path.write_text(new if constants else text + "\n_CONSTANT = 1\n")
        changed += constants
        keys.add(key_of(copy))
        path.write_text(text)
    assert len(keys) == 1 + len(modules)
    assert changed > 10


def test_schemas_are_data_for_the_code() -> None:
    """Programs are made of them when they are needed: they need not count."""
    assert really_imported()[1] == 0


@pytest.mark.parametrize("compiler", ["llvmlite", "numba"])
def test_versions_of_the_compilers_count(
    compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = key_of(ROOT)
    package = tmp_path / compiler
    package.mkdir()
    (package / "__init__.py").write_text("")
    keys = set()
    monkeypatch.syspath_prepend(str(tmp_path))
    for version in ("0.1", "0.2"):
        (package / "_version.py").write_text(f"version = {version!r}\n")
        keys.add(key_of(ROOT))
    assert len(keys | {key}) == 3


def test_the_key_names_the_file() -> None:
    """With the processor."""
    kept = ((1, "zen4", ""), (2, "zen4", ""), (1, "skylake", ""), (1, "zen4", "+avx2"))
    names = [compiled.cache_path((name, features), key).name for key, name, features in kept]
    assert len({*names}) == 4
