"""What the system says about the pages of a process."""

from __future__ import annotations

import subprocess
import sys


def test_the_system_gives_small_pages() -> None:
    program = (
        "from kgroup.columnar.chunk_reader import refuse_huge_pages; refuse_huge_pages(); "
        "print(open('/proc/self/status').read())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert b"THP_enabled:\t0\n" in done.stdout
