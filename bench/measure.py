"""Whole processes, measured from outside, and the table that tells of them."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.broker import maven

HERE = Path(__file__).parent
KAFKA = "4.3.1"
KGROUP = [sys.executable, "-m", "kgroup"]
ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if name not in ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
}
"""As for an installed command: compiled code is kept, output is buffered."""


@dataclass(frozen=True)
class Measurement:
    """One process: wall clock and processor time in seconds, peak of resident memory in MiB."""

    wall: float
    cpu: float
    memory: float


def measure(
    command: Sequence[str], stdin: Path | None = None, statuses: Collection[int] = (0,)
) -> Measurement:
    """Run a process to its end, its output thrown away; it ends with one of `statuses`."""
    read, write = os.pipe()
    runner = [sys.executable, "-S", str(HERE / "measured.py"), str(write)]
    with open(stdin or os.devnull, "rb") as reader, open(read, "rb") as figures:
        process = subprocess.run(
            [*runner, *command],
            stdin=reader,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT,
            pass_fds=(write,),
            check=False,
        )
        os.close(write)
        if process.returncode not in statuses:
            raise SystemExit(
                f"{' '.join(command)}: status {process.returncode}\n{process.stderr.decode()}"
            )
        return Measurement(*json.load(figures))


def median(runs: Sequence[Measurement]) -> Measurement:
    return Measurement(
        statistics.median(run.wall for run in runs),
        statistics.median(run.cpu for run in runs),
        max(run.memory for run in runs),
    )


def kafka_tool(main_class: str, *arguments: str) -> list[str]:
    """Return the command of one of Kafka's tools, with the options of kafka-run-class.sh.

    256 MB of heap, G1 with the options of KAFKA_JVM_PERFORMANCE_OPTS.
    """
    jvm = ["-Xmx256M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]
    return ["java", *jvm, "-cp", maven.java_classpath(KAFKA), main_class, *arguments]


def print_heads(*heads: str) -> None:
    print_row(*heads)
    print_row(*("---" for _ in heads))


def print_row(*cells: str) -> None:
    print("| " + " | ".join(cells) + " |", flush=True)


def machine() -> str:
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return f"{os.cpu_count()} cores, {model}, {memory:.0f} GiB"
