"""What a command line imports."""

from __future__ import annotations

import subprocess
import sys


def loaded_by(*args: str) -> set[str]:
    """Modules that a process has imported when it has run a command."""
    code = (
        "import sys\n"
        "from kgroup.cli.main import status_of\n"
        "status_of(sys.argv[1:])\n"
        "print(*sorted(sys.modules), sep='\\n', file=sys.stderr)\n"
    )
    command = [sys.executable, "-c", code, *args]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(done.stderr.split())
