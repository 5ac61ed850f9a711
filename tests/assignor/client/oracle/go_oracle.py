"""Go libraries, asked for what their members send and their leaders assign.

The program in a folder next to this file is built against a version of a library. A copy of the
library may get one more file (`inside/`, in the folder of its package; its name is the first
version that it fits), which exports what the package does not. In a second copy, loops over maps
have a fixed order, so that answers that depend on chance are always the same. Needs Go.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.broker.maven import CACHE

_HERE = Path(__file__).parent
_FUNCTIONS_IN_LOOPS = (1, 23)
"""Version of Go that can loop over what a function gives."""


@dataclass(frozen=True, eq=False)
class GoLibrary:
    """A library and its program.

    Attributes:
        folder: of the program.
        module: that the program imports.
        walk_in_order: changes the copy in a folder so that maps are walked in order.
        former: name of the module before a version, and that version.
    """

    folder: str
    module: str
    walk_in_order: Callable[[Path], None]
    former: tuple[str, str] | None = None

    def ask(
        self, specs: Sequence[Mapping[str, Any]], version: str, *options: str, in_order: bool = True
    ) -> list[dict[str, Any]]:
        """Give the answer to each spec.

        Args:
            specs: as `kgroup assign --spec` takes them.
            version: of the library.
            options: of the program.
            in_order: whether maps are walked in order; otherwise Go draws one each time.
        """
        done = subprocess.run(
            [_built(self, version, in_order), *options],
            input="".join(json.dumps(spec) + "\n" for spec in specs).encode(),
            stdout=subprocess.PIPE,
            check=True,
            timeout=3600,
        )
        return [json.loads(line) for line in done.stdout.splitlines()]


@cache
def _built(library: GoLibrary, version: str, in_order: bool) -> Path:
    """Build a program, once for all processes."""
    source = _HERE / library.folder
    sources = hashlib.sha256()
    for path in sorted((*source.rglob("*.*"), *_HERE.glob("in_order/*"), *_HERE.glob("*.*"))):
        if path.suffix != ".pyc":
            sources.update(path.read_bytes())
    order = "in-order" if in_order else "as-it-is"
    done = CACHE / f"{library.folder}-{version}-{order}-{sources.hexdigest()[:16]}"
    if done.exists():
        return done
    CACHE.mkdir(parents=True, exist_ok=True)
    module = library.module
    if library.former is not None and _numbers(version) < _numbers(library.former[1]):
        module = library.former[0]
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        program, copied = Path(folder) / "program", Path(folder) / "library"
        shutil.copytree(source, program, ignore=shutil.ignore_patterns("inside", "*.py*"))
        shutil.copyfile(_HERE / "asked.go", program / "asked.go")
        found = json.loads(_go("mod", "download", "-json", f"{module}@v{version}", at=program))
        shutil.copytree(found["Dir"], copied, copy_function=shutil.copyfile)
        for path in (copied, *copied.rglob("*/")):
            path.chmod(0o755)
        inside = {_since(path): path for path in source.glob("inside/**/*.go.txt")}
        if at := max((at for at in inside if at <= _numbers(version)), default=None):
            package = inside[at].parent.relative_to(source / "inside")
            shutil.copyfile(inside[at], copied / package / "inside.go")
        if in_order:
            library.walk_in_order(copied)
        _go("mod", "edit", f"-require={library.module}@v{version}", at=program)
        _go("mod", "edit", f"-replace={library.module}={copied}", at=program)
        _go("mod", "tidy", at=program)
        _go("build", "-o", "ask", ".", at=program)
        (program / "ask").replace(done)
    return done


def _since(path: Path) -> tuple[int, ...]:
    return _numbers(path.name.removesuffix(".go.txt"))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def by_key(*names: str) -> Callable[[Path], None]:
    """Let maps be walked in the order of their keys in these files of the package (`in_order/`)."""

    def walk(package: Path) -> None:
        tool = package.parent / "in_order"
        _go("build", "-o", str(tool), ".", at=_HERE / "in_order")
        there = [name for name in names if (package / name).exists()]
        subprocess.run([tool, package, *there], check=True, stderr=subprocess.DEVNULL)
        use_newer_go(package)

    return walk


def use_newer_go(package: Path) -> None:
    """Let a package use what its version of Go lacks: type parameters, functions in loops."""
    declared = (package / "go.mod").read_text("utf-8").split("\ngo ")[1].split()[0]
    if _numbers(declared) < _FUNCTIONS_IN_LOOPS:
        _go("mod", "edit", "-go={}.{}".format(*_FUNCTIONS_IN_LOOPS), at=package)


def _go(*words: str, at: Path) -> bytes:
    done = subprocess.run(
        ["go", *words],
        cwd=at,
        capture_output=True,
        env=os.environ | {"GOFLAGS": "-mod=mod -buildvcs=false", "GOTOOLCHAIN": "local"},
        check=False,
    )
    assert not done.returncode, done.stderr.decode()
    return done.stdout
