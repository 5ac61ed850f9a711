"""Offsets of many groups from Kafka to databases and back, beside Kafka's own CSV plans.

The peer is `kafka-consumer-groups --reset-offsets` with the same groups, which knows Kafka and
files: `--to-current --export` for what reads, `--from-file --execute` for what writes. Two sides
are compared behind an export of each; offsets that go to another place take both. All processes
are whole ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from bench.live import TOOL, cluster
from bench.measure import KGROUP, Measurement, kafka_tool, measure, median, print_heads, print_row
from tests.broker.sql_servers import postgresql

GROUPS = 1_000
PARTITIONS = 100


class Peer(NamedTuple):
    """What Kafka's tool needs for the same."""

    what: str
    seconds: float


def bench(runs: int) -> None:
    """Measure each job so often; Kafka's tool once, as it takes long."""
    with (
        TemporaryDirectory() as work,
        TemporaryDirectory() as files,
        cluster(work, GROUPS, PARTITIONS) as bootstrap,
        postgresql() as server,
    ):
        folder = Path(files)
        print(
            f"A broker on loopback with {GROUPS:,} groups, each with {PARTITIONS} committed "
            "partitions and no members; databases on loopback.\n"
        )
        print_heads(
            "job", "seconds", "offsets a second", "Kafka's tool, s", "times as fast", "beside"
        )
        peer = ["--bootstrap-server", bootstrap, "--reset-offsets", "--all-groups", "--all-topics"]
        export = measure(kafka_tool(TOOL, *peer, "--to-current", "--export", "--dry-run"))
        read = Peer("export", export.wall)
        where = ["-b", bootstrap]
        saved = folder / "all.json"
        _job(
            "export to JSON", runs, [["offsets", "export", *where, "--all", "-f", str(saved)]], read
        )
        compared = Peer("two exports", 2 * read.seconds)
        _job(
            "diff of Kafka and a file",
            runs,
            [["offsets", "diff", "kafka", str(saved), "--all", *where]],
            compared,
        )
        plan, shifted = folder / "plan.csv", folder / "shifted.csv"
        measure([*KGROUP, "offsets", "export", *where, "--all", "-f", str(plan)])
        shifted.write_text(_shifted(plan.read_text()))
        command = [*peer, "--from-file", str(shifted), "--execute"]
        written = Peer("--from-file", measure(kafka_tool(TOOL, *command)).wall)
        moved = Peer("export and --from-file", read.seconds + written.seconds)
        list(_imports(3, [plan, shifted], where, folder, "first"))  # until the broker is warm
        _print("import to Kafka", list(_imports(runs, [plan, shifted], where, folder)), written)
        for name, url in (("SQLite", str(folder / "o.db")), ("PostgreSQL", server.url())):
            store = f"sql:{url}"
            both = ["--all", *where, "--execute", "--yes"]
            _copies(f"copy from Kafka to {name}", runs, ["kafka", store], both, folder, moved)
            _job(
                f"diff of Kafka and {name}",
                runs,
                [["offsets", "diff", "kafka", store, "--all", *where]],
                compared,
            )
            taken = []
            for run in range(runs):  # as long as nothing differs nothing would be written
                list(_imports(1, [plan], where, folder, f"{name}-{run}"))
                backup = ["--backup", str(folder / f"back-{name}-{run}.json")]
                taken.append(measure([*KGROUP, "offsets", "copy", store, "kafka", *both, *backup]))
            _print(f"copy from {name} to Kafka", taken, written)


def _imports(
    runs: int, files: list[Path], where: list[str], folder: Path, name: str = "import"
) -> Iterator[Measurement]:
    """Import files in turn, each of which changes all offsets."""
    for run in range(runs):
        for file in files:
            backup = folder / f"{name}-{run}-{file.stem}.json"
            line = ["offsets", "import", *where, str(file), "--all", "--execute", "--yes"]
            yield measure([*KGROUP, *line, "--backup", str(backup)])


def _copies(
    job: str, runs: int, stores: list[str], options: list[str], folder: Path, peer: Peer
) -> None:
    """Copy everything into an empty table, again and again."""
    taken = []
    for run in range(runs):
        table = ["--sql-table", f"t{run}", "--create-table"]
        backup = ["--backup", str(folder / f"{abs(hash(job))}-{run}.json")]
        taken.append(measure([*KGROUP, "offsets", "copy", *stores, *options, *table, *backup]))
    table = ["--create-table", "--backup", str(folder / f"{abs(hash(job))}.json")]
    measure([*KGROUP, "offsets", "copy", *stores, *options, *table])
    _print(job, taken, peer)


def _job(job: str, runs: int, commands: list[list[str]], peer: Peer) -> None:
    _print(job, [measure([*KGROUP, *command]) for _ in range(runs) for command in commands], peer)


def _print(job: str, taken: list[Measurement], peer: Peer) -> None:
    our = median(taken)
    print_row(
        job,
        f"{our.wall:.2f}",
        f"{GROUPS * PARTITIONS / our.wall:,.0f}",
        f"{peer.seconds:.1f}",
        f"{peer.seconds / our.wall:.0f}",
        peer.what,
    )


def _shifted(plan: str) -> str:
    """Put each offset one back, or on from 0: within the ten records that partitions have."""
    lines = []
    for line in plan.splitlines():
        head, _, offset = line.rpartition(",")
        lines.append(f"{head},{int(offset) - 1 if int(offset) else 1}")
    return "\n".join(lines) + "\n"
