"""How long each command takes on the small sample, and how much an installation takes.

Of the other tools, the help is measured: what they take before they do anything.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.live import TOOL
from bench.measure import HERE, KGROUP, kafka_tool, measure, median, print_heads, print_row

GO_TOOLS = ("kcl", "kaf")
EXTRAS = ("", "fast", "history", "top", "sql", "spark")
COMMANDS = (
    "--help",
    "list --sample",
    "top --sample --refreshes 1 -o jsonl",
    "describe --sample billing",
    "coordinator --sample billing",
    "assign --sample billing --remove-member billing-2",
    "why --sample billing",
    "simulate --sample --from billing --crash billing-1",
    "plan --sample billing",
    "offsets show --sample billing",
    "decode-offsets --sample --group ledger -o jsonl",
    "history timeline --sample billing",
    "history rebalances --sample billing",
    "history owner --sample invoices 3",
    "profile list",
    "doctor",
    "completion bash",
)
STATUSES = (0, 1, 5)
"""Of commands that did their work; some print their help with status 1."""


def bench(runs: int) -> None:
    """Print what commands and installations take."""
    print_heads("command", "s", "processor, s", "peak memory, MB")
    commands = {"kafka-consumer-groups --help": kafka_tool(TOOL, "--help")}
    commands |= {f"{tool} --help": [tool, "--help"] for tool in GO_TOOLS if shutil.which(tool)}
    commands |= {f"kgroup {words}": [*KGROUP, *words.split()] for words in COMMANDS}
    for name, command in commands.items():
        measure(command, statuses=STATUSES)  # compiles what is not compiled yet
        run = median([measure(command, statuses=STATUSES) for _ in range(3 * runs)])
        print_row(f"`{name}`", f"{run.wall:.2f}", f"{run.cpu:.2f}", f"{run.memory:.0f}")
    print()
    print_heads("installed", "MB")
    for extra in EXTRAS:
        name = f".[{extra}]" if extra else "."
        print_row(f"`pip install '{name}'`", f"{_installed_mb(name):.0f}")
    for tool in GO_TOOLS:
        if path := shutil.which(tool):
            print_row(tool, f"{Path(path).stat().st_size / 1e6:.0f}")


def _installed_mb(requirement: str) -> float:
    """Install into an empty folder, without compiled code, and add up the sizes of its files."""
    with TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile"]
        options = ["-c", str(HERE.parent / "constraints.txt"), "--target", folder]
        subprocess.run([*pip, *options, requirement], check=True, cwd=HERE.parent)
        return sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file()) / 1e6
