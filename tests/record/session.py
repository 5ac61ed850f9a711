"""Java clients under remote control: one JVM that runs many clients on command.

The protocol is that of `java/Session.java`: a line `verb key=value …` in, a line `ok text` or
`failed text` out, everything URL-encoded.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from urllib.parse import quote, unquote_plus

from tests.broker.maven import Artifacts, compile_java, die_with_parent, java_command

JAVA = Path(__file__).parent / "java"


class ClientError(AssertionError):
    """A client answered that it could not do what it was told."""


class Session:
    """A running JVM with clients; every call blocks until the client has answered."""

    def __init__(self, process: subprocess.Popen[bytes], bootstrap: str | None) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._commands: IO[bytes] = process.stdin
        self._answers: IO[bytes] = process.stdout
        self._process = process
        self._bootstrap = bootstrap

    def call(self, verb: str, **arguments: object) -> str:
        """Let a client do something; keys of `config` become its configuration."""
        config = arguments.pop("config", None)
        words = [verb] + [_pair(key, value) for key, value in arguments.items()]
        if self._bootstrap is not None:
            words.append(_pair("config.bootstrap.servers", self._bootstrap))
        if isinstance(config, dict):
            words += [_pair(f"config.{key}", value) for key, value in config.items()]
        self._commands.write(" ".join(words).encode() + b"\n")
        self._commands.flush()
        status, _, text = self._answers.readline().decode().strip().partition(" ")
        if status != "ok":
            raise ClientError(f"{verb} {arguments}: {status} {unquote_plus(text)}")
        return unquote_plus(text)

    def suspend(self) -> None:
        """Let the whole process stand still."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on where it stood still."""
        self._process.send_signal(signal.SIGCONT)

    def halt(self) -> None:
        """End all clients at once, as a crash would."""
        self._process.kill()
        self._process.wait()
        self._commands.close()
        self._answers.close()


@contextmanager
def session(
    version: str,
    actors: list[str],
    *,
    bootstrap: str | None,
    log: Path,
    log_level: str = "WARN",
    artifacts: Artifacts = "server",
) -> Iterator[Session]:
    """Start a JVM with the clients of one Kafka version; its clients vanish with it."""
    sources = [JAVA / f"{name}.java" for name in ["Session", *actors]]
    classes = compile_java(sources, version, artifacts)
    command = java_command(version, log_level=log_level, classes=classes, artifacts=artifacts)
    with log.open("ab") as errors:
        process = subprocess.Popen(
            [*command, "Session", *actors],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            preexec_fn=die_with_parent(),
        )
        running = Session(process, bootstrap)
        try:
            yield running
        finally:
            running.halt()


def _pair(key: str, value: object) -> str:
    return f"{quote(key, safe='')}={quote(str(value), safe='')}"
