"""Go libraries, asked for what their members send and their leaders assign.

A program of a folder beside is built against a version of a library, of which a copy gets one file
more (`inside/`): it opens to the program what the package keeps for itself. Of a second copy the
loops over maps go in the order of the keys (`in_order/`): what the library answers by chance is
the same then every time. Needs Go.
"""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.broker.maven import CACHE

__all__ = ["GoLibrary"]

_HERE = Path(__file__).parent
_FUNCTIONS_IN_LOOPS = (1, 23)
"""Version of Go that can loop over what a function gives."""


@dataclass(frozen=True, eq=False)
class GoLibrary:
    """A library and its program.

    Attributes:
        folder: of the program.
        required: the module that the program imports.
        versions: that are compared: the module, and the file of `inside` that fits.
        walked: files in which maps are walked.
    """

    folder: str
    required: str
    versions: Mapping[str, tuple[str, str]]
    walked: tuple[str, ...]

    def ask(
        self,
        specs: Sequence[Mapping[str, Any]],
        version: str,
        *options: str,
        order: str | None = None,
    ) -> list[dict[str, Any]]:
        """Give the answer to each spec.

        Args:
            specs: as `kgroup assign --spec` takes them.
            version: of the library.
            options: of the program.
            order: "ascending" or "descending": of maps; None leaves it to Go, which is random.
        """
        program = _built(self, version, order is not None)
        done = subprocess.run(
            [program, *options],
            input="".join(json.dumps(spec) + "\n" for spec in specs).encode(),
            stdout=subprocess.PIPE,
            env=os.environ | {"MAP_ORDER": order or ""},
            check=True,
            timeout=3600,
        )
        return [json.loads(line) for line in done.stdout.splitlines()]


@cache
def _built(library: GoLibrary, version: str, in_order: bool) -> Path:
    """Build a program, once for all processes."""
    name = library.folder
    module, inside = library.versions[version]
    sources = hashlib.sha256(f"{module} {library.walked}".encode())
    for source in sorted(_HERE.glob(f"{name}/**/*.*")) + sorted(_HERE.glob("in_order/*")):
        if source.suffix not in (".py", ".pyc"):
            sources.update(source.read_bytes())
    order = "in-order" if in_order else "as-it-is"
    done = CACHE / f"{name}-{version}-{order}-{sources.hexdigest()[:16]}"
    if done.exists():
        return done
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        program, copied = Path(folder) / "program", Path(folder) / "library"
        shutil.copytree(_HERE / name, program, ignore=shutil.ignore_patterns("inside", "*.py"))
        found = json.loads(_go("mod", "download", "-json", module, at=program))
        shutil.copytree(found["Dir"], copied, copy_function=shutil.copyfile)
        for each in (copied, *copied.rglob("*/")):
            each.chmod(0o755)
        shutil.copyfile(_HERE / name / "inside" / f"{inside}.go.txt", copied / "inside.go")
        if in_order:
            _walk_in_order(copied, library.walked)
        _go("mod", "edit", f"-replace={library.required}={copied}", at=program)
        _go("mod", "tidy", at=program)
        _go("build", "-o", "ask", ".", at=program)
        (program / "ask").replace(done)
    return done


def _walk_in_order(package: Path, names: Iterable[str]) -> None:
    tool = package.parent / "in_order"
    _go("build", "-o", str(tool), ".", at=_HERE / "in_order")
    there = [name for name in names if (package / name).exists()]
    subprocess.run([tool, package, *there], check=True, stderr=subprocess.DEVNULL)
    declared = (package / "go.mod").read_text("utf-8").split("\ngo ")[1].split()[0]
    if tuple(map(int, declared.split("."))) < _FUNCTIONS_IN_LOOPS:
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
