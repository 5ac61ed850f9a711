"""Kafka's own jars, fetched once through Maven, and Java programs run against them.

Every Kafka version gets one folder of jars under `CACHE`, written aside and renamed into place
under a file lock, so that parallel test workers fetch it once. The folder's name carries a hash
of the pom: a changed pom never meets old jars.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from tests.default_signals import default_signals

CACHE = Path(os.environ.get("KGROUP_TEST_CACHE") or Path.home() / ".cache" / "kgroup-test")

POM = Path(__file__).parent / "pom"

FETCHES = 3
"""Times that jars are asked for, since a repository may be out of reach for a moment."""

Artifacts = Literal["server", "streams", "tiered"]
"""Which jars: broker with its command-line tools, or these and Kafka Streams, or remote storage."""


class JavaError(AssertionError):
    """A Java program, javac or Maven failed; the message ends with its last output."""


def version_tuple(version: str) -> tuple[int, ...]:
    """Return `"0.10.2.2"` as `(0, 10, 2, 2)`, to compare versions; a beta as what it became."""
    return tuple(int(part) for part in version.partition("-")[0].split("."))


def kafka_jars(version: str, artifacts: Artifacts = "server") -> list[Path]:
    """Return all jars of one Kafka version: broker, its tools and a logging binding; then others.

    Whatever the artifacts, those of the server come first, so that its `class_archive` fits.
    """
    jars = sorted(_jar_folder(version, "server").glob("*.jar"))
    if artifacts != "server":
        names = {jar.name for jar in jars}
        others = sorted(_jar_folder(version, artifacts).glob("*.jar"))
        jars += [jar for jar in others if jar.name not in names]
    return jars


def java_classpath(version: str, artifacts: Artifacts = "server") -> str:
    """Return the class path of `kafka_jars`."""
    return os.pathsep.join(str(jar) for jar in kafka_jars(version, artifacts))


def java_command(
    version: str,
    *,
    heap: str = "256m",
    log_level: str = "WARN",
    jvm: Sequence[str] = (),
    classes: Path | None = None,
    artifacts: Artifacts = "server",
    archive: str | None = "kafka.Kafka",
    first: Path | None = None,
) -> list[str]:
    """Return `java` with options for a short life and small memory, up to the main class's name.

    Classes of the jar `first` come before all others. `archive` names the server whose
    `class_archive` the JVM starts from, if one was written.
    """
    classpath = java_classpath(version, artifacts)
    if classes is not None:  # last: an archive fits the class path that it was written for, or more
        classpath = f"{classpath}{os.pathsep}{classes}"
    if first is not None:
        classpath = f"{first}{os.pathsep}{classpath}"
    shared = []
    if archive is not None and (file := class_archive(version, archive)).exists():
        shared = [f"-XX:SharedArchiveFile={file}"]
    return [
        _tool("java"),
        f"-Xmx{heap}",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Xshare:auto",
        "-Xlog:cds*=off",
        *shared,
        "-Djava.awt.headless=true",
        f"-Dlog4j.configuration={(POM / 'log4j.properties').as_uri()}",
        f"-Dlog4j2.configurationFile={(POM / 'log4j2.properties').as_uri()}",
        f"-Dkgroup.log={log_level}",
        *jvm,
        "-cp",
        classpath,
    ]


def class_archive(version: str, main: str) -> Path:
    """Return where the classes that a server loads are kept, parsed, for the JVMs of its version.

    The first server that is stopped writes the file (`Server.await_stop`). With it, Kafka 4.3.1
    starts with 4.5 s of CPU time instead of 6.6, 2.8.2 with 3.5 instead of 5.0, and a tool of
    4.3.1 runs with 0.95 s instead of 1.48. Another JDK ignores it: then empty the cache.
    """
    return _jar_folder(version, "server") / f"{main}.jsa"


def run_java(
    version: str,
    main: str,
    args: Sequence[str],
    *,
    input: bytes | None = None,  # noqa: A002 -- subprocess.run's name
    classes: Path | None = None,
    timeout: float = 120,
    heap: str = "256m",
    jvm: Sequence[str] = (),
    artifacts: Artifacts = "server",
    archive: str | None = "kafka.Kafka",
    first: Path | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run a Java class against one Kafka version; raise `JavaError` where it fails."""
    command = java_command(
        version,
        heap=heap,
        jvm=jvm,
        classes=classes,
        artifacts=artifacts,
        archive=archive,
        first=first,
    )
    return _run([*command, main, *args], stdin=input, timeout=timeout, what=f"{main} {version}")


def compile_java(sources: list[Path], version: str, artifacts: Artifacts = "server") -> Path:
    """Compile against one Kafka version; the folder of classes is kept by content."""
    jars = _jar_folder(version, artifacts)
    digest = hashlib.sha256(jars.name.encode())
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    folder = CACHE / f"classes-{version}-{digest.hexdigest()[:16]}"

    def compile_into(target: Path) -> None:
        options = ["-nowarn", "-proc:none", "-d", str(target), "-cp", f"{jars}/*"]
        command = [_tool("javac"), *options, *(str(source) for source in sources)]
        _run(command, stdin=None, timeout=300, what=f"javac {version}")

    return made_once(folder, compile_into)


def compile_oracle(main: str, version: str) -> Path:
    """Compile an assignor's oracle, given its main class, against one Kafka version."""
    folder = Path(__file__).parent / "java"
    names = ["SpecOracle", main.rpartition(".")[2]]
    return compile_java([folder / f"{name}.java" for name in names], version)


def client_jar(version: str) -> Path:
    """Return the jar of one version of kafka-clients alone."""

    def fetch_into(target: Path) -> None:
        command = [
            _tool("mvn"),
            "--batch-mode",
            "--quiet",
            "--no-transfer-progress",
            "-Daether.connector.requestTimeout=60000",  # ms; by default half an hour
            f"-Dartifact=org.apache.kafka:kafka-clients:{version}",
            f"-DoutputDirectory={target}",
            "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy",
        ]
        _retry(command, f"mvn for kafka-clients {version}")

    return next(made_once(CACHE / f"kafka-clients-{version}", fetch_into).glob("*.jar"))


def _retry(command: list[str], what: str) -> None:
    for rest in reversed(range(FETCHES)):
        try:
            _run(command, stdin=None, timeout=900, what=what)
            return
        except JavaError:  # what was fetched so far is kept
            if rest == 0:
                raise
            time.sleep(10)


def die_with_parent() -> Callable[[], None]:
    """Return a `preexec_fn` after which the kernel kills the child when its parent dies (Linux).

    The parent is the thread that starts the child: start long-lived ones in a thread that stays.
    The child also has `default_signals`.
    """
    if not sys.platform.startswith("linux"):
        return default_signals
    libc = ctypes.CDLL(None, use_errno=True)
    parent = os.getpid()
    pr_set_pdeathsig = 1

    def preexec() -> None:
        libc.prctl(pr_set_pdeathsig, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)  # the parent died before prctl
        default_signals()

    return preexec


def _jar_folder(version: str, artifacts: Artifacts) -> Path:
    pom = POM / "pom.xml"
    digest = hashlib.sha256(pom.read_bytes()).hexdigest()[:8]
    number = version_tuple(version)
    profiles = ["log4j2" if number >= (4,) else "log4j1"]
    if number < (1,):
        profiles += ["jaxb", "jackson"]
    if "beta" in version:
        profiles.append("beta")
    if number >= (3,):
        profiles.append("tools")
    if artifacts != "server":
        profiles.append(artifacts)

    def fetch_into(target: Path) -> None:
        command = [
            _tool("mvn"),
            "--batch-mode",
            "--quiet",
            "--no-transfer-progress",
            "-Daether.connector.requestTimeout=60000",  # ms; by default half an hour
            f"--file={pom}",
            f"-Dkafka.version={version}",
            f"-Dscala.version={_scala(version)}",
            # Kafka 0.8.0 counts its compiler and another logging binding among what it needs.
            "-DexcludeArtifactIds=scala-compiler,slf4j-simple",
            "-DincludeScope=runtime",
            f"-DoutputDirectory={target}",
            f"--activate-profiles={','.join(profiles)}",
            "dependency:copy-dependencies",
        ]
        _retry(command, f"mvn for Kafka {version}")

    return made_once(CACHE / f"kafka-{version}-{artifacts}-{digest}", fetch_into)


def _scala(version: str) -> str:
    """Return the Scala whose build of this Kafka is taken."""
    number = version_tuple(version)
    if number >= (2, 8):
        return "2.13"
    if number >= (0, 8, 2):
        return "2.11"
    return "2.9.2" if version == "0.8.0-beta1" else "2.10"


def made_once(folder: Path, make: Callable[[Path], None], lock: str = "lock") -> Path:
    """Return `folder`, made by one process and complete when anyone sees it.

    All that is made under one lock is made one after the other.
    """
    if folder.is_dir():
        return folder
    with _cache_lock(lock):
        if not folder.is_dir():
            aside = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=CACHE))
            try:
                make(aside)
                aside.rename(folder)
            except BaseException:
                shutil.rmtree(aside, ignore_errors=True)
                raise
    return folder


@contextmanager
def _cache_lock(name: str) -> Iterator[None]:
    """Hold a lock of the cache; all of Maven has one, since two must not share a repository."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / name).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _tool(name: str) -> str:
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / name).exists():
        return str(Path(home) / "bin" / name)
    found = shutil.which(name)
    if found is None:
        raise JavaError(f"{name} is not on the path: the broker tests need JDK 17 and Maven")
    return found


def _run(
    command: list[str], *, stdin: bytes | None, timeout: float, what: str
) -> subprocess.CompletedProcess[bytes]:
    try:
        done = subprocess.run(
            command,
            input=b"" if stdin is None else stdin,
            capture_output=True,
            timeout=timeout,
            preexec_fn=die_with_parent(),
        )
    except subprocess.TimeoutExpired as late:
        tail = _tail(late.stdout, late.stderr)
        raise JavaError(f"{what} did not end within {timeout:g} s\n{tail}") from late
    if done.returncode != 0:
        tail = _tail(done.stdout, done.stderr)
        raise JavaError(f"{what} ended with status {done.returncode}\n{tail}")
    return done


def _tail(*outputs: bytes | None) -> str:
    """Return the last output of a failed program, standard error last."""
    kept = [(output or b"")[-4000:].decode(errors="replace") for output in outputs]
    return "\n".join(text for text in kept if text.strip())
