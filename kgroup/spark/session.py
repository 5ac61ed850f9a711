"""Start a Spark session: embedded by default, or on a cluster if a master is given.

An embedded session is `local[*]`: a JVM next to this process, and a Python worker for each core.
On a cluster, the executors need this version of kgroup in their Python and must see the same
folders.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from signal import SIGINT, getsignal, signal
from subprocess import Popen
from tempfile import TemporaryFile
from threading import current_thread, main_thread
from typing import IO, TYPE_CHECKING, Any, TypeVar

import kgroup
from kgroup.errors import KgroupError, install_advice
from kgroup.interrupt import kept_signals
from kgroup.pandas_import import leave_out_pandas

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_T = TypeVar("_T")
_R = TypeVar("_R")

_DEFAULTS = {
    "spark.app.name": "kgroup",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.worker.faulthandler.enabled": "true",
}
"""Default settings, which the user can override: the JVM passes rows on and keeps none."""

_LITTLE = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options for a JVM with little work: otherwise it mostly compiles, on our workers' cores."""
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Loggers in which PySpark also writes the errors that it raises, with the JVM's stack trace."""


def is_installed() -> bool:
    """Return whether PySpark is installed."""
    return find_spec("pyspark") is not None


def check_installed() -> None:
    """Check that PySpark and a suitable Java are installed.

    Raises:
        KgroupError: one is missing.
    """
    if not is_installed():
        raise KgroupError(
            f"Spark is needed, and PySpark is not installed; {install_advice('spark')}"
        )
    if not _is_submitted() and (trouble := java_trouble()) is not None:
        raise KgroupError(trouble)


@contextmanager
def spark_session(
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    *,
    only_tasks: bool = False,
) -> Iterator[SparkSession]:
    """Yield a session; if it was created here, it is stopped at the end.

    Args:
        master: master of the cluster; by default that of `spark-submit`, else `local[*]`.
        settings: settings of Spark, which override its own files.
        only_tasks: whether the session is used for `run_on` only, not for queries.

    Raises:
        KgroupError: PySpark or Java is missing, or Spark does not start.
    """
    check_installed()
    is_submitted = _is_submitted()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)

    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    for name in _LOGGERS:
        PySparkLogger.getLogger(name).disabled = True
    chosen = dict(settings or {})
    if master is not None:
        chosen["spark.master"] = master
    if not is_submitted:
        little = {
            f"spark.{process}.defaultJavaOptions": _LITTLE for process in ("driver", "executor")
        }
        chosen = {**_DEFAULTS, **(little if only_tasks else {}), **_embedded(chosen), **chosen}
    chosen = {**_python_path(), **chosen}
    running = SparkSession.getActiveSession()
    builder: Any = SparkSession.builder
    for name, value in chosen.items():
        builder = builder.config(name, value)
    interrupted = getsignal(SIGINT)
    with TemporaryFile() as stderr:
        try:
            with nullcontext() if is_submitted else _errors_to(stderr), _ended_if_interrupted():
                session = builder.getOrCreate()
                if current_thread() is main_thread():
                    signal(SIGINT, interrupted)  # PySpark has installed its own handler
        except (PySparkException, Py4JError, OSError) as error:
            stderr.seek(0)
            reason = reason_of_start(error, stderr.read().decode("utf-8", "replace"))
            raise KgroupError(f"Spark does not start: {reason}") from None
    try:
        yield session
    finally:
        if running is None:
            session.stop()


def run_on(
    session: SparkSession, function: Callable[[_T], _R], tasks: Sequence[_T]
) -> Iterator[_R]:
    """Apply a function to tasks in the executors, one task per core; yield the results.

    Args:
        session: session to run on.
        function: picklable; all results come to the driver at once. An exception that it raises is
            raised here unchanged and not retried; Spark retries only if an executor is lost.
        tasks: picklable tasks.

    Raises:
        KgroupError: an executor failed, and Spark gave up.
    """
    if not tasks:
        return

    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    def attempt(task: _T) -> tuple[_R | None, Exception | None]:
        leave_out_pandas()
        try:
            return function(task), None
        except Exception as error:
            return None, error

    try:
        results = session.sparkContext.parallelize(tasks, len(tasks)).map(attempt).collect()
    except (Py4JError, PySparkException) as error:
        raise KgroupError(f"Spark gave up: {first_line(error)}") from None
    for result, failure in results:
        if failure is not None:
            raise failure
        yield result


def first_line(error: BaseException) -> str:
    """Return the first line of a Spark error, without Java class names and stack traces."""
    java_error: Any = getattr(error, "java_exception", None)
    text = str(java_error or error)
    if java_error is not None and "awaitResult:" in text.splitlines()[0]:
        text = str(java_error.getCause() or text)  # cause from the thread that was waited for
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return re.sub(r"^(?:[\w$]+\.)+[\w$]+: ", "", lines[0]).removesuffix(".")


def reason_of_start(error: BaseException, stderr: str) -> str:
    """Return the reason why Spark did not start.

    Args:
        error: the exception; it says little if the JVM or its context ended before.
        stderr: standard error of the JVM.
    """
    for pattern in (
        r"(Failed to connect to master .+)",
        r"^Exception in thread .+? (?:[\w$]+\.)+[\w$]+: (.+)",
        r"^(Invalid .+)",  # JVM options
    ):
        errors = re.findall(pattern, stderr, re.MULTILINE)
        if errors:
            return str(errors[-1])
    # skip stack traces
    lines = [line for line in stderr.splitlines() if not re.match(r"\s|$", line)]
    return ": ".join([first_line(error), *lines[-1:]])


@contextmanager
def _errors_to(file: IO[bytes]) -> Iterator[None]:
    """Redirect standard error of a JVM started in this context to a file."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


@contextmanager
def _ended_if_interrupted() -> Iterator[None]:
    """Stop a JVM if an interrupt comes while it starts.

    PySpark waits for the JVM to write where it listens, and removes the file for that when it is
    interrupted. The JVM would then wait forever, and keep the standard streams open.
    """
    from pyspark import java_gateway

    started: list[Popen[bytes]] = []

    def start(*args: Any, **kwargs: Any) -> Popen[bytes]:
        with kept_signals() as interrupts:  # until the process is recorded
            started.append(Popen(*args, **kwargs))
        for interrupt in interrupts:
            raise interrupt
        return started[-1]

    module: Any = java_gateway
    module.Popen = start
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        for process in started:
            process.kill()
            process.wait()
        raise
    finally:
        module.Popen = Popen


def _is_submitted() -> bool:
    """Return whether `spark-submit` runs this process, and has a JVM."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def java_trouble() -> str | None:
    """Return why Spark would find no Java; None if it would."""
    home = os.environ.get("JAVA_HOME") or None  # Spark's scripts take an empty value for none
    if home is None and shutil.which("java") is None:
        return "Spark needs Java 17 or later, and none was found; install a JDK, or set JAVA_HOME"
    if home is not None and not (Path(home) / "bin" / "java").exists():
        return f"Spark needs Java, and JAVA_HOME={home} has no bin/java"
    return None


def _embedded(chosen: Mapping[str, str]) -> dict[str, str]:
    """Return settings for a JVM next to this process."""
    if not chosen.get("spark.master", "local[*]").startswith("local"):
        return {}
    logging = Path(__file__).with_name("log4j2.properties")
    return {
        "spark.master": "local[*]",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={logging.as_uri()}",
    }


def _python_path() -> dict[str, str]:
    """Return settings for local executors to find this kgroup, if it is not installed for all."""
    package = Path(kgroup.__file__).parent
    if package.parent.name in ("site-packages", "dist-packages"):
        return {}
    path = os.pathsep.join(filter(None, [str(package.parent), os.environ.get("PYTHONPATH")]))
    return {"spark.executorEnv.PYTHONPATH": path}
