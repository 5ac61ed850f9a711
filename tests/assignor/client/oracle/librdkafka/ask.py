"""Asks librdkafka what its leaders assign, in processes of their own: some leaders end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from tests.assignor.client.answers import Model
from tests.assignor.client.oracle.librdkafka.leader import ENDLESS, lead
from tests.broker.maven import CACHE

_WHEELS = {"2.16.0": "2.16.1"}
"""By version of librdkafka, the one of confluent-kafka that brings it, if it is another one."""
_PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2010_x86_64")


def ask(model: Model, specs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give for each spec the `assignment`, or the `error` with the signal that ends the leader.

    Where a leader never ends, the error is EndlessLoop.

    Raises:
        RuntimeError: a leader ends for no reason of its own.
    """
    answers: dict[str, dict[str, Any]] = {}
    waiting = list(specs)
    while waiting:
        begun, status = _lead(model, waiting, answers)
        for spec in waiting:
            if spec["id"] in begun and spec["id"] not in answers:  # in its midst a leader ended
                _, own = _lead(model, [spec], answers)
                if own:
                    answers[spec["id"]] = {"error": {"type": _end(own), "message": None}}
        left = [spec for spec in waiting if spec["id"] not in answers]
        if len(left) == len(waiting):
            raise RuntimeError(f"leaders of librdkafka end with status {status} and say nothing")
        waiting = left
    return [answers[spec["id"]] for spec in specs]


@cache
def library(version: str) -> Path:
    """Return the file of librdkafka of a version; the wheel is fetched if it is not installed."""
    wheel = _WHEELS.get(version, version)
    python = "3.11" if wheel.startswith("2.") else "3.9"
    folder = CACHE / f"librdkafka-{version}"
    if wheel == metadata.version("confluent-kafka"):
        folder = Path(str(metadata.distribution("confluent-kafka").locate_file("")))
        folder /= "confluent_kafka.libs"
    paths = sorted(folder.glob("librdkafka-*.so*"))
    if not paths:
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [
                *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"),
                *("--only-binary", ":all:", "--python-version", python, "--dest", folder),
                *(f"--platform={platform}" for platform in _PLATFORMS),
                f"confluent-kafka=={wheel}",
            ],
            check=True,
        )
        with ZipFile(next(folder.glob("*.whl"))) as files:
            name = next(name for name in files.namelist() if "/librdkafka-" in name)
            (folder / Path(name).name).write_bytes(files.read(name))
        paths = sorted(folder.glob("librdkafka-*.so*"))
    return paths[0]


def _lead(
    model: Model, specs: Sequence[dict[str, Any]], answers: dict[str, dict[str, Any]]
) -> tuple[set[str], int]:
    """Let leaders assign; give the ids of what was begun, and the status they end with.

    That is negative where a signal ends them.
    """
    path = library(model.version)
    read, write = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(read)
        lead(path, model.strategy, specs, write)
    os.close(write)
    begun = set()
    with os.fdopen(read) as lines:
        for line in lines:
            said = json.loads(line)
            if "begun" in said:
                begun.add(said["begun"])
            else:
                answers[said["id"]] = said
    return begun, os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def _end(status: int) -> str:
    if status == ENDLESS:
        return "EndlessLoop"
    if status in (-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGFPE):
        return signal.Signals(-status).name
    raise RuntimeError(f"a leader of librdkafka ends with status {status}")
