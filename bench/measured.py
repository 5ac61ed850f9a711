"""Run a command, and write what it took to a file descriptor, as JSON.

A process of its own, and a small one: the kernel counts the memory of the one that starts a command
to the command's peak.
"""

from __future__ import annotations

import json
import os
import sys
from time import perf_counter

if __name__ == "__main__":
    file, command = int(sys.argv[1]), sys.argv[2:]
    os.set_inheritable(file, False)
    begin = perf_counter()
    child = os.posix_spawnp(command[0], command, os.environ)
    _, status, usage = os.wait4(child, 0)
    wall = perf_counter() - begin
    with open(file, "w", encoding="utf-8") as figures:
        json.dump([wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024], figures)
    sys.exit(os.waitstatus_to_exitcode(status))
