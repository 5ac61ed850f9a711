"""How a JVM is started, and that none is left behind; a process in its place is enough."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from signal import SIGINT, SIGTERM, Signals
from time import sleep

import pytest

from tests.default_signals import default_signals
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

START = """
import signal, sys
from kgroup.spark.session import spark_session
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
with spark_session():
    pass
"""


def script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def environment(folder: Path) -> dict[str, str]:
    """One in which Spark's programs are those of a folder."""
    own = {"JAVA_HOME": str(folder), "SPARK_HOME": str(folder), "PYTHONPATH": str(ROOT)}
    return os.environ | own


def stand_in(folder: Path) -> Path:
    """Make programs of Spark's that do nothing for a minute; give the file for the process id."""
    written = folder / "pid"
    script(folder / "bin" / "java", "exit 0")
    script(
        folder / "bin" / "spark-submit",
        f"echo $$ > {written}.new\nmv {written}.new {written}\nexec sleep 60",
    )
    return written


@pytest.mark.parametrize("number", [SIGINT, SIGTERM])
def test_no_jvm_is_left_behind(number: Signals, tmp_path: Path) -> None:
    written = stand_in(tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-c", START],
        env=environment(tmp_path),
        stderr=subprocess.DEVNULL,
        preexec_fn=default_signals,
    )
    while not written.exists():
        assert process.poll() is None
        sleep(0.02)
    started = int(written.read_text())
    process.send_signal(number)
    process.wait(PATIENCE_S)
    with pytest.raises(ProcessLookupError):
        os.kill(started, 0)


EARLY = """
import os, signal, sys, time
from kgroup.spark import session
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
class Slow(session.Popen):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        while not os.path.exists(sys.argv[1]):
            time.sleep(0.02)
        os.kill(os.getpid(), int(sys.argv[2]))
session.Popen = Slow
with session.spark_session():
    pass
"""


@pytest.mark.parametrize("number", [SIGINT, SIGTERM])
def test_no_jvm_is_left_behind_that_has_just_begun(number: Signals, tmp_path: Path) -> None:
    """It runs before who starts it knows."""
    written = stand_in(tmp_path)
    subprocess.run(
        [sys.executable, "-c", EARLY, written, str(number.value)],
        env=environment(tmp_path),
        stderr=subprocess.DEVNULL,
        preexec_fn=default_signals,
        timeout=PATIENCE_S,
    )
    with pytest.raises(ProcessLookupError):
        os.kill(int(written.read_text()), 0)


TRY = """
from kgroup.errors import KgroupError
from kgroup.spark.session import spark_session
own = {"spark.driver.defaultJavaOptions": "-Xss2m"}
for settings, only_tasks in ((None, True), (None, False), (own, True)):
    try:
        with spark_session("local[1]", settings, only_tasks=only_tasks):
            pass
    except KgroupError as error:
        print(error)
"""


def test_a_jvm_that_passes_tasks_on_compiles_little(tmp_path: Path) -> None:
    """And what a user sets goes before."""
    script(tmp_path / "bin" / "java", "exit 0")
    script(tmp_path / "bin" / "spark-submit", f'echo "$@" >> {tmp_path}/arguments\nexit 1')
    done = subprocess.run(
        [sys.executable, "-c", TRY],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.count("Spark does not start") == 3
    of_tasks, of_queries, own = (tmp_path / "arguments").read_text().splitlines()
    setting = "spark.driver.defaultJavaOptions="
    assert f"{setting}-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" in of_tasks
    assert setting not in of_queries
    assert f"{setting}-Xss2m" in own
