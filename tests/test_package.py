"""What is published works where nothing else is: the wheel, and the source distribution."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
from pathlib import Path

import pytest

from kgroup import __version__
from kgroup.cli import man_page
from kgroup.operation.part import PARTS
from tests.cli.conftest import Cli, cli  # noqa: F401, a fixture

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
DEMO = re.findall(r"^DEMO := ((?:.*\\\n)*.*)", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
NAME = f"kgroup-{__version__}"
ENVIRONMENT = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}


def run(*command: object, cwd: Path) -> str:
    """Run a program that must end well, and give what it prints."""
    words = [*map(str, command)]
    done = subprocess.run(words, cwd=cwd, env=ENVIRONMENT, capture_output=True, timeout=500)
    assert done.returncode == 0, (words, done.stderr.decode())
    return done.stdout.decode()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    run(sys.executable, "-m", "hatchling", "build", "-d", folder, cwd=ROOT)
    return folder


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that had nothing in it before the wheel."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder)
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin" / "python")
    (wheel,) = built.glob("*.whl")
    run(*pip, "install", "-q", "-c", ROOT / "constraints.txt", wheel, cwd=folder)
    return folder


def test_the_wheel_runs_the_demo(installed: Path, cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    lines = re.findall(r"'([^']+)'", DEMO[0])
    assert len(lines) > 4
    for line in lines:
        shown = run(installed / "bin" / "kgroup", *line.split(), cwd=tmp_path)
        assert shown == cli(*line.split()).out


def test_the_wheel_brings_what_it_says(installed: Path, tmp_path: Path) -> None:
    columns = ("--columns", "name,condition", "--no-headers", "-o", "tsv")
    rows = run(installed / "bin" / "kgroup", "doctor", *columns, cwd=tmp_path).splitlines()
    conditions = dict(row.split("\t") for row in rows)
    wanted = {part.name: "missing" if part.extra else "ok" for part in PARTS}
    assert {name: conditions[name] for name in wanted} == wanted
    pages = {path.name: path.read_text("utf-8") for path in installed.glob("share/man/man1/*")}
    assert pages == dict(man_page.pages())
    for shell, file in (
        ("bash", "bash-completion/completions/kgroup"),
        ("zsh", "zsh/site-functions/_kgroup"),
    ):
        script = run(
            installed / "bin" / "python", "-m", "kgroup", "completion", shell, cwd=tmp_path
        )
        assert (installed / "share" / file).read_text("utf-8") == script


def test_the_source_distribution_makes_the_same_wheel(built: Path, tmp_path: Path) -> None:
    (source,) = built.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    root = tmp_path / NAME
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path, cwd=root)
    (wheel,), (again,) = built.glob("*.whl"), tmp_path.glob("*.whl")
    assert wheel.read_bytes() == again.read_bytes()


def test_the_source_distribution_has_all_that_make_needs(built: Path) -> None:
    (source,) = built.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "Makefile", "constraints.txt", "tests/__init__.py"} <= packed
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    for name in project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]:
        path = ROOT / name
        files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
        wanted = {str(each.relative_to(ROOT)) for each in files if "__pycache__" not in each.parts}
        assert wanted
        assert wanted <= packed
