"""`kgroup decode-offsets --follow` as a process of its own, line by line."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import threading
from typing import IO, Any

from tests.default_signals import default_signals
from tests.waiting import PATIENCE_S


class Follower:
    """A run of `--follow -o jsonl`; a context manager that interrupts it.

    Attributes:
        status: exit status, once it has ended.
        seen: every row that was taken.
    """

    def __init__(self, bootstrap: str, *options: str) -> None:
        self.seen: list[dict[str, Any]] = []
        self.status: int | None = None
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "kgroup", "decode-offsets", "-b", bootstrap),
                *("--follow", "-o", "jsonl", "--timeout", "60", *options),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=default_signals,
        )
        self._rows: queue.Queue[bytes] = queue.Queue()
        self._errors: queue.Queue[bytes] = queue.Queue()
        self._threads = [
            threading.Thread(target=_read, args=[stream, lines], daemon=True)
            for stream, lines in (
                (self._process.stdout, self._rows),
                (self._process.stderr, self._errors),
            )
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        try:
            self.status = self._process.wait(PATIENCE_S)
        finally:
            self._process.kill()
        for thread in self._threads:
            thread.join()

    def row(self) -> dict[str, Any]:
        """Wait for the next line of standard output."""
        self.seen.append(json.loads(self._rows.get(timeout=PATIENCE_S)))
        return self.seen[-1]

    def rows(self, count: int) -> list[dict[str, Any]]:
        """Wait for so many lines."""
        return [self.row() for _ in range(count)]

    def row_of(self, group: str, offset: int) -> dict[str, Any]:
        """Wait for the commit of an offset by a group."""
        while True:
            row = self.row()
            if row["type"] != "OffsetCommit" or row["value"] is None:
                continue
            if (row["key"]["data"]["group"], row["value"]["data"]["offset"]) == (group, offset):
                return row

    def is_quiet(self) -> bool:
        """Return whether no further line has come so far."""
        return self._rows.empty()

    def note(self) -> str:
        """Wait for the next line of standard error."""
        return self._errors.get(timeout=PATIENCE_S).decode()

    @property
    def notes(self) -> list[str]:
        """Take the lines that standard error has got."""
        return [self._errors.get().decode() for _ in range(self._errors.qsize())]


def _read(stream: IO[bytes], lines: queue.Queue[bytes]) -> None:
    with stream:
        for line in stream:
            lines.put(line)
