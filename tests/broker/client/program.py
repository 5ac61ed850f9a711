"""The program of each library that is a consumer, made once for each version into the tests' cache.

Python's come with the tests' environment, other versions of them, aiokafka and Node's from their
registries; Go's are compiled, and librdkafka for Node. Those need `go`, `npm` and a C++ compiler.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.broker.maven import CACHE, made_once

PYTHON: Mapping[str, str] = {
    "librdkafka": "confluent-kafka",
    "kafka-python": "kafka-python",
    "aiokafka": "aiokafka",
}
"""Libraries whose programs are Python's, and the packages they are in."""

_NODE: Mapping[str, str] = {
    "kafkajs": "kafkajs",
    "@platformatic/kafka": "platformatic",
    "kafka-node": "kafka_node",
    "kafka-ts": "kafka_ts",
    "node-rdkafka": "node_rdkafka",
    "@confluentinc/kafka-javascript": "confluent_javascript",
}
"""Libraries whose programs are Node's, and the folders they are in."""
WITH_LIBRDKAFKA = ("node-rdkafka", "@confluentinc/kafka-javascript")
"""Of these, those that contain librdkafka, and compile it."""

_GO: Mapping[str, str] = {
    "franz-go": "github.com/twmb/franz-go",
    "sarama": "github.com/IBM/sarama",
    "kafka-go": "github.com/segmentio/kafka-go",
}
GO_AND_NODE = (*_GO, "kafkajs")
"""Libraries whose programs need Go or Node."""

_HERE = Path(__file__).parent
_LOCK = "client-lock"
_PATIENCE_S = 900


def command(library: str, version: str | None = None) -> tuple[list[str], dict[str, str]]:
    """Return the command of a library's program, and what it needs in its environment.

    Args:
        library: as its users call it.
        version: of its package; None for the one that go.mod, package.json or this environment has.
    """
    name = library.lower().replace("-", "_")
    if library in PYTHON:
        script = [sys.executable, str(_HERE / f"{name}_member.py")]
        if version is None:
            return script, {}
        package = f"{PYTHON[library]}=={version}"
        folder = made_once(CACHE / f"client-{package}", lambda target: _pip(package, target), _LOCK)
        return script, {"PYTHONPATH": str(folder)}
    if library in _NODE:
        source = _NODE[library]
        folder = _made(
            source, f"{library}@{version}", lambda target: _npm(source, library, version, target)
        )
        return ["node", str(folder / "main.mjs")], {}
    module = _GO[library]
    folder = _made(name, version, lambda target: _go(_HERE / name, module, version, target))
    return [str(folder / "member")], {}


def kfake() -> str:
    """Return the program that runs a cluster of franz-go's kfake with groups (`kfake/main.go`)."""
    return str(
        _made("kfake", None, lambda target: _go(_HERE / "kfake", "", None, target)) / "member"
    )


def _made(name: str, version: str | None, make: Callable[[Path], None]) -> Path:
    digest = hashlib.sha256(repr(version).encode())
    for path in sorted((_HERE / name).iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return made_once(CACHE / f"client-{name}-{digest.hexdigest()[:16]}", make, _LOCK)


def _pip(package: str, target: Path) -> None:
    _run([sys.executable, "-m", "pip", "install", "--quiet", f"--target={target}", package], target)


def _npm(source: str, package: str, version: str | None, target: Path) -> None:
    shutil.copytree(_HERE / source, target, dirs_exist_ok=True)
    wanted = ["ci"] if version is None else ["install", f"{package}@{version}"]
    _run(["npm", *wanted, "--silent", "--no-audit", "--no-fund", "--ignore-scripts"], target)
    if package in WITH_LIBRDKAFKA:
        headers = Path(shutil.which("node") or "node").resolve().parents[1]
        rebuild = ["npm", "rebuild", package, f"--nodedir={headers}", "--build-from-source"]
        _run(["env", "CKJS_LINKING=dynamic", *rebuild], target)  # with the libraries of the system


def _go(source: Path, module: str, version: str | None, target: Path) -> None:
    shutil.copytree(source, target, dirs_exist_ok=True)
    if version is not None:
        _run(["go", "get", f"{module}@v{version}"], target)
        _run(["go", "mod", "tidy"], target)
    is_eager = module == _GO["sarama"] and version is not None and _older(version, "1.60.1")
    tags = ["-tags", "eager"] if is_eager else []  # without cooperative-sticky
    _run(["go", "build", *tags, "-o", "member", "."], target)


def _older(version: str, other: str) -> bool:
    first, second = ([*map(int, text.split("."))] for text in (version, other))
    return first < second


def _run(words: list[str], folder: Path) -> None:
    done = subprocess.run(words, cwd=folder, capture_output=True, timeout=_PATIENCE_S)
    if done.returncode != 0:
        tail = (done.stdout + done.stderr)[-4000:].decode(errors="replace")
        raise AssertionError(f"{' '.join(words)} ended with status {done.returncode}\n{tail}")
