"""Without the extra `fast` the reference decoder reads large inputs too, and it is said once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kgroup.sample import sample_log_dir
from tests.cli.command_line import Cli

NOTE = (
    "kgroup: note: a large input was read without compiled code, which would be many times faster: "
    "install the extra [fast] (docs/install.md)\n"
)


def without_compiler(*args: object, broken: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command line for which every input is large, where no compiler is installed.

    Args:
        args: the command line.
        broken: folder of one that is installed and cannot be loaded; None: there is none.
    """
    is_missing = "input_size.is_installed = lambda: False\n" if broken is None else ""
    code = (
        "import sys\n"
        "from kgroup.cli.main import status_of\n"
        "from kgroup.columnar import input_size\n"
        "from kgroup.history.build import task\n"
        "input_size.LARGE = task.COMPILED_BYTES = 0\n"
        f"{is_missing}"
        "status = status_of(sys.argv[1:])\n"
        f"assert {broken is not None} or not {{'llvmlite', 'numba'}} & sys.modules.keys()\n"
        "sys.exit(status)\n"
    )
    command = [sys.executable, "-c", code, *map(str, args)]
    environment = dict(os.environ)
    if broken is not None:
        folders = (str(broken), environment.get("PYTHONPATH"))
        environment["PYTHONPATH"] = os.pathsep.join(folder for folder in folders if folder)
        environment["XDG_CACHE_HOME"] = str(broken)
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)


@pytest.mark.parametrize(
    "line",
    [
        "decode-offsets --sample -o jsonl",
        pytest.param("decode-offsets --sample --latest -o jsonl", marks=pytest.mark.slow),
        pytest.param("decode-offsets --sample --stats", marks=pytest.mark.slow),
        pytest.param("describe --sample --all -o json", marks=pytest.mark.slow),
    ],
)
def test_the_same_is_read(cli: Cli, line: str) -> None:
    expected = cli(*line.split())
    done = without_compiler(*line.split())
    assert (done.returncode, done.stdout) == (0, expected.out)
    assert done.stderr == expected.err + NOTE


@pytest.mark.parametrize(
    ("package", "error"),
    [("llvmlite", 'OSError("no library")'), ("numba", 'ImportError("no library")')],
)
def test_a_compiler_that_cannot_be_loaded_is_none(
    cli: Cli, tmp_path: Path, package: str, error: str
) -> None:
    """It was taken for a log that cannot be read, or for a bug."""
    folder = tmp_path / package
    folder.mkdir()
    (folder / "__init__.py").write_text(f"raise {error}")
    (folder / "_version.py").write_text("")
    line = ["decode-offsets", "--sample", "--stats"]
    done = without_compiler(*line, broken=tmp_path)
    assert (done.returncode, done.stdout) == (0, cli(*line).out)
    why = "the compiler cannot be loaded: no library"
    assert done.stderr == NOTE.replace("install the extra [fast] (docs/install.md)", why)


def test_a_warehouse_is_built(cli: Cli, tmp_path: Path) -> None:
    segment = sample_log_dir() / "__consumer_offsets-2"
    line = ("history", "build", "--from", segment, "-o", "json", "--to")
    expected = cli(*line, tmp_path / "fast")
    done = without_compiler(*line, tmp_path / "plain")
    assert (done.returncode, done.stderr) == (0, NOTE + expected.err)
    one, other = (re.sub('"seconds":{.*?}', "", out) for out in (done.stdout, expected.out))
    assert one == other
