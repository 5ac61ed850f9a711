"""A temporary warehouse for one question, with the records of a source.

A question reads tables. Without a warehouse, they are made of the records that the question is
about, by the code of `kgroup history build`; so the answers are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kgroup.errors import ProblemKind
from kgroup.history.build.build import Build, BuildFrom, ClusterReport
from kgroup.history.build.task import JobRunner
from kgroup.history.input.live_source import RecentLog, recent_live
from kgroup.history.warehouse.warehouse import link_files, write_warehouse
from kgroup.model.offsets_partition import OFFSETS_TOPIC
from kgroup.model.problem import Problem
from kgroup.operation.report import Report
from kgroup.source.config.client_config import ClientConfig

UNNAMED = "-"
"""Name of a cluster whose files have no id."""


@contextmanager
def recorded(
    build_from: BuildFrom,
    run: JobRunner,
    *,
    group_id: str | None,
    base: Path | None,
    on_progress: Callable[[int, int, str], None] = lambda done, size, unit: None,
) -> Iterator[tuple[Path, Report[ClusterReport]]]:
    """Write records into a warehouse that exists while the context lasts.

    Args:
        build_from: reads the records.
        run: runs tasks.
        group_id: only the records of this group.
        base: warehouse with older records; None without.
        on_progress: see `Build`.

    Yields:
        The folder, and what the build reports.

    Raises:
        InputError: there is nothing to read.
        BrokerError: no broker answers.
        OSError: a file cannot be read or written.
    """
    with TemporaryDirectory(prefix="kgroup-") as folder:
        root = Path(folder, "warehouse")
        if base is not None:
            link_files(base, root)
        with write_warehouse(root) as writer:
            report = build_from(Build(writer, run, on_progress, group_id))
        yield root, report


def build_from_group(
    config: ClientConfig,
    group_id: str,
    *,
    cluster: str | None,
    timeout_s: float,
    since_ms: int | None,
    budget: int,
    with_log_ends: bool = False,
) -> BuildFrom:
    """Return a function that reads the records of a group from a cluster.

    A GroupMetadata record has all of a classic group. Records of other groups tell what has
    changed, so that all of them are read, as far as the budget allows.

    Args:
        config: how to connect.
        group_id: the group.
        cluster: name for the cluster; None for its cluster id.
        timeout_s: see `recent_live`.
        since_ms: see `recent_live`.
        budget: see `recent_live`.
        with_log_ends: also record the log ends of the partitions with commits of the group.
    """

    def read(build: Build, found: RecentLog) -> Report[ClusterReport]:
        build.read_live(found.source)
        if with_log_ends and found.number is not None:
            cluster = found.source.cluster
            committed = build.committed_partitions(cluster, found.number, group_id)
            build.add_log_ends(cluster, found.log_ends(committed))
        return build.commit()

    def build_from(build: Build) -> Report[ClusterReport]:
        recent = partial(
            recent_live,
            config,
            group_id,
            only_group=build.group_id is not None,
            known_end=build.known_end,
            cluster=cluster,
            unnamed=UNNAMED,
            timeout_s=timeout_s,
        )
        with recent(since_ms=since_ms, until=None, budget=budget) as found:
            report = read(build, found)
        has_epochs = build.has_rows("consumer_group_epochs", group_id)
        if has_epochs and found.start > found.first and not found.is_cut:
            rest = max(budget - found.size, 0)
            with recent(since_ms=None, until=found.start, budget=rest) as found:
                report = read(build, found)
        cut = _cut(found, has_epochs=has_epochs)
        return Report(report.data, (*report.errors, *cut.errors), (*report.notes, *cut.notes))

    return build_from


def _cut(found: RecentLog, *, has_epochs: bool) -> Report[Any]:
    """Return what a reader must know if older records were not read."""
    if found.number is None and not found.source.problems:
        return Report((), notes=(f"The cluster shows no topic {OFFSETS_TOPIC}: nothing is known.",))
    if found.start <= found.first:
        return Report(())
    what = f"Records before offset {found.start} of {OFFSETS_TOPIC}-{found.number} were not read"
    if not has_epochs:
        return Report((), notes=(f"{what}: what the group was before them is unknown.",))
    reason = (
        f"{what} (--log-budget): what members got before and have kept since is missing, and "
        "who joined or changed in the first rebalances may be wrong."
    )
    return Report(
        (), errors=(Problem(ProblemKind.NOT_READ, reason, offsets_partition=found.number),)
    )
