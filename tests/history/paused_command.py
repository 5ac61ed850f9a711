"""A command line that stops before it commits a build, as if by SIGSTOP, until it gets SIGCONT.

    python -m tests.history.paused_command [--die] history build ...

With --die it is killed as soon as that is committed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kgroup.__main__ import main
from kgroup.history.build.build import Build, ClusterReport
from kgroup.operation.report import Report


def paused_command(*args: str | Path, die: bool = False) -> Sequence[str | Path]:
    """Return the command line of a command that is to stop."""
    return [sys.executable, "-m", __name__, *(["--die"] if die else []), *args]


def await_paused(process: subprocess.Popen[Any]) -> None:
    """Wait until it has stopped."""
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status), status


def _run() -> None:
    commit = Build.commit
    is_to_die = sys.argv[1] == "--die"
    if is_to_die:
        del sys.argv[1]

    def pause(self: Build) -> Report[ClusterReport]:
        os.kill(os.getpid(), signal.SIGSTOP)
        report = commit(self)
        if is_to_die:
            os.kill(os.getpid(), signal.SIGKILL)
        return report

    Build.commit = pause  # type: ignore[method-assign]
    main()


if __name__ == "__main__":
    _run()
