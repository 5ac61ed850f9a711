"""An interrupt while Spark starts leaves no JVM behind; a process in its place is enough."""

import os
import subprocess
import sys
from pathlib import Path
from signal import SIGINT, SIGTERM, Signals
from time import sleep

import pytest

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


@pytest.mark.parametrize("number", [SIGINT, SIGTERM])
def test_no_jvm_is_left_behind(number: Signals, tmp_path: Path) -> None:
    written = tmp_path / "pid"
    script(tmp_path / "bin" / "java", "exit 0")
    script(
        tmp_path / "bin" / "spark-submit",
        f"echo $$ > {written}.new\nmv {written}.new {written}\nexec sleep 60",
    )
    environment = {
        **os.environ,
        "JAVA_HOME": str(tmp_path),
        "SPARK_HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT),
    }
    process = subprocess.Popen(
        [sys.executable, "-c", START], env=environment, stderr=subprocess.DEVNULL
    )
    while not written.exists():
        assert process.poll() is None
        sleep(0.02)
    started = int(written.read_text())
    process.send_signal(number)
    process.wait(20)
    with pytest.raises(ProcessLookupError):
        os.kill(started, 0)
