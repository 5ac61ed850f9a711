"""What is published works where nothing else is: the wheel, and the source distribution."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from kgroup import __version__
from kgroup.operation.doctor import PACKAGES
from tests.cli.command_line import Cli
from tests.cli.man_pages import pages

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
DEMO = re.findall(r"^DEMO := ((?:.*\\\n)*.*)", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
NAME = f"kgroup-{__version__}"
INSTALL_LINES = re.findall(
    r"^ {4}((?:pip|uv|pipx) .*)", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE
)
CONSTRAINTS = str(ROOT / "constraints.txt")
ENVIRONMENT = {
    **{name: text for name, text in os.environ.items() if not name.startswith("PYTHON")},
    "PIP_CONSTRAINT": CONSTRAINTS,
    "PIP_NO_COMPILE": "1",  # compiling every module takes longer than installing them
    "UV_CONSTRAINT": CONSTRAINTS,
}


def run(*command: object, cwd: Path, **environment: object) -> str:
    """Run a program that must end well, and give what it prints."""
    words = [*map(str, command)]
    done = subprocess.run(
        words,
        cwd=cwd,
        env=ENVIRONMENT | {name: str(value) for name, value in environment.items()},
        capture_output=True,
        timeout=500,
    )
    assert done.returncode == 0, (words, done.stdout.decode(), done.stderr.decode())
    return done.stdout.decode()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    run(sys.executable, "-m", "hatchling", "build", "-d", folder, cwd=ROOT)
    return folder


@pytest.fixture(scope="module")
def source(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the source distribution unpacks to."""
    folder = tmp_path_factory.mktemp("source")
    (packed,) = built.glob("*.tar.gz")
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="data")
    return folder / NAME


@pytest.fixture(scope="module")
def installed(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that had nothing in it before kgroup, without extras."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    run(folder / "bin" / "pip", "install", "-q", ".", cwd=source)
    return folder


@pytest.fixture(scope="module")
def installers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with uv and pipx, in an environment of their own."""
    folder = tmp_path_factory.mktemp("installers")
    venv.create(folder, with_pip=True)
    run(folder / "bin" / "pip", "install", "-q", "uv", "pipx", cwd=folder)
    return folder / "bin"


@pytest.mark.parametrize("line", INSTALL_LINES)
def test_the_lines_of_the_readme_install_it(
    line: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """In a fresh environment, from the folder as it was checked out."""
    program = line.split()[0]
    if program == "pip":
        venv.create(tmp_path, with_pip=True)
        programs = tmp_path / "bin"
    else:
        programs = request.getfixturevalue("installers")
    path = f"{tmp_path / 'local' / 'bin'}:{programs}:{os.defpath}"
    folders = {
        "UV_TOOL_DIR": tmp_path / "tools",
        "UV_TOOL_BIN_DIR": tmp_path / "local" / "bin",
        "PIPX_HOME": tmp_path / "pipx",
        "PIPX_BIN_DIR": tmp_path / "local" / "bin",
        "PIPX_MAN_DIR": tmp_path / "local" / "share" / "man",
    }
    run("sh", "-c", line, cwd=ROOT, PATH=path, **folders)
    assert "\norder-service " in run("kgroup", "list", "--sample", cwd=tmp_path, PATH=path)
    missing = run("kgroup", "doctor", "-o", "tsv", "--no-headers", cwd=tmp_path, PATH=path)
    (extras,) = re.findall(r"\[([a-z,]+)\]", line)
    assert not re.findall(rf"kgroup\[(?:{extras.replace(',', '|')})\]", missing)
    if program == "uv":  # which leaves them in the tool's own folder
        path = f"{tmp_path / 'tools' / 'kgroup' / 'bin'}:{path}"
    page = run("man", "kgroup", cwd=tmp_path, PATH=path, MANWIDTH=80)
    assert page.startswith("KGROUP(1)")


def test_the_readme_installs_it_with_pip_uv_and_pipx() -> None:
    assert [line.split()[0] for line in INSTALL_LINES] == ["pip", "pipx", "uv"]


def test_building_it_runs_no_code_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert [name.partition(">=")[0] for name in project["build-system"]["requires"]] == [
        "hatchling"
    ]
    build = project["tool"]["hatch"]["build"]
    assert "hooks" not in {*build, *(key for target in build["targets"].values() for key in target)}
    assert project["tool"]["hatch"]["version"].keys() == {"path"}


def test_an_install_without_extras_runs_the_demo(installed: Path, cli: Cli, tmp_path: Path) -> None:
    lines = re.findall(r"'([^']+)'", DEMO[0])
    assert len(lines) > 4
    for line in lines:
        shown = run(installed / "bin" / "kgroup", *line.split(), cwd=tmp_path)
        assert shown == cli(*line.split()).out


def test_it_brings_what_it_says(installed: Path, tmp_path: Path) -> None:
    columns = ("--columns", "name,condition", "--no-headers", "-o", "tsv")
    rows = run(installed / "bin" / "kgroup", "doctor", *columns, cwd=tmp_path).splitlines()
    conditions = dict(row.split("\t") for row in rows)
    wanted = {part.name: "missing" if part.extra else "ok" for part in PACKAGES}
    assert {name: conditions[name] for name in wanted} == wanted
    shipped = {path.name: path.read_text("utf-8") for path in installed.glob("share/man/man1/*")}
    assert shipped == pages()
    for shell, file in (
        ("bash", "bash-completion/completions/kgroup"),
        ("zsh", "zsh/site-functions/_kgroup"),
    ):
        script = run(
            installed / "bin" / "python", "-m", "kgroup", "completion", shell, cwd=tmp_path
        )
        assert (installed / "share" / file).read_text("utf-8") == script


def test_the_source_distribution_makes_the_same_wheel(
    built: Path, source: Path, tmp_path: Path
) -> None:
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path, cwd=source)
    (wheel,), (again,) = built.glob("*.whl"), tmp_path.glob("*.whl")
    assert wheel.read_bytes() == again.read_bytes()


def test_the_source_distribution_has_all_that_make_needs(source: Path) -> None:
    packed = {str(path.relative_to(source)) for path in source.rglob("*")}
    assert {"pyproject.toml", "Makefile", "constraints.txt", "tests/__init__.py"} <= packed
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    for name in project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]:
        path = ROOT / name
        files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
        wanted = {str(file.relative_to(ROOT)) for file in files if "__pycache__" not in file.parts}
        wanted = {file for file in wanted if not file.startswith("bench/data/")}  # written by runs
        assert wanted
        assert wanted <= packed


def test_the_lines_of_the_containerfile_install_it(source: Path, tmp_path: Path) -> None:
    """Without an engine: what `RUN` runs, and then what `ENTRYPOINT` and `CMD` start."""
    text = (source / "Containerfile").read_text("utf-8")
    text = text.replace("/opt/kgroup", str(tmp_path / "kgroup")).replace("/source", str(source))
    lines = re.findall(r"^RUN (.*)", text, re.MULTILINE)
    assert len(lines) == 2
    python = f"{Path(sys.executable).parent}:{os.defpath}"
    for line in lines:
        run("sh", "-c", line, cwd=tmp_path, PATH=python)
    (folder,) = re.findall(r"^ENV PATH=([^:]*):", text, re.MULTILINE)
    (entry, command) = (
        json.loads(re.findall(rf"^{word} (.*)", text, re.MULTILINE)[0])
        for word in ("ENTRYPOINT", "CMD")
    )
    assert "Usage: kgroup" in run(*entry, *command, cwd=tmp_path, PATH=folder)
    assert "billing" in run(*entry, "list", "--sample", cwd=tmp_path, PATH=folder)
    assert re.search(r"^USER [1-9]\d*:[1-9]\d*$", text, re.MULTILINE), "not root"


@pytest.mark.parametrize("workflow", sorted((ROOT / ".github" / "workflows").iterdir()), ids=str)
def test_workflows_run_targets_of_the_makefile(workflow: Path) -> None:
    jobs = yaml.safe_load(workflow.read_text("utf-8"))["jobs"].values()
    lines = [step["run"] for job in jobs for step in job["steps"] if "run" in step]
    stages = [stage for job in jobs for stage in _matrix(job).get("stage", ())]
    words = [word for line in lines for word in line.split()[1:] if "=" not in word]
    targets = {word for word in words if re.fullmatch("[a-z]+", word)} | {*stages}
    phony = re.findall(r"^\.PHONY: (.*)", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert targets
    assert targets <= {*phony[0].split()}
    assert {line.split()[0] for line in lines} == {"make"}


def test_workflows_test_every_python_that_it_says() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text("utf-8"))
    tested = _matrix(workflow["jobs"]["unit"])["python"]
    newer = re.findall(r"^NEWER_PYTHONS := (.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert tested == [project["requires-python"].removeprefix(">="), *newer[0].split()]
    marks = [mark.rpartition(" :: ")[2] for mark in project["classifiers"]]
    assert tested == [mark for mark in marks if re.fullmatch(r"3\.\d+", mark)]


def _matrix(job: Mapping[str, Any]) -> Mapping[str, Any]:
    matrix: Mapping[str, Any] = job.get("strategy", {}).get("matrix", {})
    return matrix
