"""A standalone Spark cluster on loopback: a master and two workers, each with one core."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyspark

from tests.broker.maven import die_with_parent
from tests.broker.process import HOST, START_DEADLINE_S, ServerError, free_port
from tests.broker.quick_spark import JAVA

_SPARK = Path(pyspark.__file__).parent


@dataclass(frozen=True)
class SparkCluster:
    """Attributes: the master's URL, and the folder with the logs of all."""

    master: str
    folder: Path


@contextmanager
def spark_cluster(folder: Path) -> Iterator[SparkCluster]:
    """Run the cluster as long as the context lasts."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    master = f"spark://{HOST}:{port}"
    ui = str(free_port())
    with ExitStack() as stack:
        log = stack.enter_context(
            _running(folder, "master", ["Master", "--port", str(port), "--webui-port", ui])
        )
        _await(lambda: _listens(port), log)
        for name in ("worker-1", "worker-2"):
            size = ["--cores", "1", "--memory", "1g", "--webui-port", "0"]
            work = ["--work-dir", str(folder / name)]
            log = stack.enter_context(_running(folder, name, ["Worker", *size, *work, master]))
            _await(partial(_says, log, "registered with master"), log)
        yield SparkCluster(master, folder)


@contextmanager
def _running(folder: Path, name: str, arguments: Sequence[str]) -> Iterator[Path]:
    kind, *rest = arguments
    log = folder / f"{name}.log"
    environment = os.environ | {
        "SPARK_HOME": str(_SPARK),
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": JAVA,
        "SPARK_LAUNCHER_OPTS": JAVA,
        "SPARK_LOCAL_IP": HOST,
        "PYSPARK_PYTHON": sys.executable,
    }
    with log.open("wb") as out:
        process = subprocess.Popen(
            [
                str(_SPARK / "bin" / "spark-class"),
                f"org.apache.spark.deploy.{kind.lower()}.{kind}",
                *("--host", HOST),
                *rest,
            ],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            preexec_fn=die_with_parent(),
        )
    try:
        yield log
    finally:
        process.send_signal(signal.SIGTERM)  # a worker ends its executors
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def _says(log: Path, text: str) -> bool:
    return text in log.read_text()


def _await(is_there: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + START_DEADLINE_S
    while not is_there():
        if time.monotonic() > deadline:
            raise ServerError(f"{log.stem} of Spark did not start\n{log.read_text()[-4000:]}")
        time.sleep(0.2)
