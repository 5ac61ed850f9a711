"""A temporary warehouse for one question, with the records of a source.

A question reads tables. Without a warehouse, they are made of the records that the question is
about, by the code of `kgroup history build`; so the answers are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kgroup.errors import ProblemKind
from kgroup.history.build.build import Build, BuildFrom, ClusterReport
from kgroup.history.build.task import JobRunner
from kgroup.history.input.live_source import RecentLog, RecentPart, recent_live
from kgroup.history.warehouse.store import Location
from kgroup.history.warehouse.warehouse import TemporaryWarehouse, Warehouse, read_warehouse
from kgroup.model.instant import shown_time
from kgroup.model.offsets_partition import OFFSETS_TOPIC
from kgroup.model.problem import Problem
from kgroup.operation.report import Report
from kgroup.source.broker.live_log import partition_list
from kgroup.source.config.client_config import ClientConfig

UNNAMED = "-"
"""Name of a cluster whose files have no id."""


@contextmanager
def recorded(
    build_from: BuildFrom,
    run: JobRunner,
    *,
    group_id: str | None,
    base: Location | None,
    on_progress: Callable[[int, int, str], None] = lambda done, size, unit: None,
) -> Iterator[tuple[Warehouse, Report[ClusterReport]]]:
    """Write records into a warehouse that exists while the context lasts.

    Args:
        build_from: reads the records.
        run: runs tasks.
        group_id: only the records of this group.
        base: warehouse with older records; None without.
        on_progress: see `Build`.

    Yields:
        The warehouse, and what the build reports.

    Raises:
        InputError: there is nothing to read.
        BrokerError: no broker answers.
        OSError: a file cannot be read or written.
    """
    with TemporaryDirectory(prefix="kgroup-") as folder, ExitStack() as stack:
        older = None if base is None else stack.enter_context(read_warehouse(base))
        warehouse = TemporaryWarehouse(Path(folder, "warehouse"), older)
        yield warehouse, build_from(Build(warehouse, run, on_progress, group_id))


def build_from_recent(
    config: ClientConfig,
    group_id: str | None,
    *,
    cluster: str | None,
    timeout_s: float,
    since_ms: int | None,
    budget: int,
    with_log_ends: bool = False,
) -> BuildFrom:
    """Return a function that reads the recent records of a group, or of all, from a cluster.

    A GroupMetadata record has all of a classic group. Records of other groups tell what has
    changed, so that all records of their partitions are read, as far as the budget allows.

    Args:
        config: how to connect.
        group_id: the group; None: all groups.
        cluster: name for the cluster; None for its cluster id.
        timeout_s: see `recent_live`.
        since_ms: see `recent_live`.
        budget: see `recent_live`.
        with_log_ends: also record the log ends of the partitions with commits of the group.
    """

    def read(build: Build, found: RecentLog) -> Report[ClusterReport]:
        build.read_live(found.source)
        if with_log_ends and group_id is not None:
            cluster = found.source.cluster
            for part in found.parts:
                committed = build.committed_partitions(cluster, part.number, group_id)
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
        with recent(since_ms=since_ms, budget=budget) as found:
            report = read(build, found)
        parts = {part.number: part for part in found.parts}
        if not parts and not found.source.problems:
            note = f"The cluster shows no topic {OFFSETS_TOPIC}: nothing is known."
            return replace(report, notes=(*report.notes, note))
        changing = build.partitions_of("consumer_group_epochs", group_id)
        ends = {
            number: part.start
            for number, part in parts.items()
            if number in changing and not part.is_whole and not part.is_cut
        }
        if ends:
            rest = max(budget - sum(part.size for part in found.parts), 0)
            with recent(since_ms=None, ends=ends, budget=rest) as found:
                report = read(build, found)
            parts |= {
                part.number: replace(part, start_ms=part.start_ms or parts[part.number].start_ms)
                for part in found.parts
            }
        unread = [part for part in parts.values() if not part.is_whole]
        cut = _cut(unread, changing, group_id, since_ms)
        return Report(report.data, (*report.errors, *cut.errors), (*report.notes, *cut.notes))

    return build_from


def _cut(
    unread: Sequence[RecentPart],
    changing: Collection[int],
    group_id: str | None,
    since_ms: int | None,
) -> Report[Any]:
    """Return what a reader must know about partitions whose older records were not read.

    Args:
        unread: the partitions.
        changing: partitions with groups whose records tell only what has changed.
        group_id: see `build_from_recent`.
        since_ms: see `build_from_recent`.
    """
    notes: list[str] = []
    errors: list[Problem] = []
    lacking = [part for part in unread if part.number in changing]
    cut = [part for part in unread if part.is_cut and part not in lacking]
    older = [part for part in unread if not part.is_cut and part not in lacking]
    if lacking:
        by_budget = " (--log-budget)" if any(part.is_cut for part in lacking) else ""
        reason = (
            f"{_unread(lacking, group_id)}{by_budget}: what members got before and have kept since "
            "is missing, and who joined or changed in the first rebalances may be wrong."
        )
        number = lacking[0].number if len(lacking) == 1 else None
        errors.append(Problem(ProblemKind.NOT_READ, reason, offsets_partition=number))
    if group_id is not None:
        before = "what the group was before them is unknown."
        for part in (*cut, *older):
            by_budget = " (--log-budget)" if part.is_cut else ""
            notes.append(f"{_unread([part], group_id)}{by_budget}: {before}")
        return Report((), tuple(errors), tuple(notes))
    if cut and since_ms is None:  # older records matter, or continue a warehouse
        reason = (
            f"{_unread(cut, group_id)} (--log-budget): the answer lacks rebalances before that "
            "time, and who got partitions in them."
        )
        number = cut[0].number if len(cut) == 1 else None
        errors.append(Problem(ProblemKind.NOT_READ, reason, offsets_partition=number))
        return Report((), tuple(errors), ())
    timed = [part for part in cut if part.start_ms is not None]
    if timed:
        notes.append(
            f"{_unread(timed, group_id)} (--log-budget): of groups there, the answer is complete "
            "only after that time."
        )
    if untimed := [part.number for part in cut if part.start_ms is None]:
        notes.append(
            f"No record with a time was read in {partition_list(untimed)} (--log-budget): of "
            "groups there, the answer is not complete."
        )
    if older and since_ms is not None:
        time = shown_time(since_ms)
        notes.append(f"What groups were before {time} is unknown: older records were not read.")
    return Report((), tuple(errors), tuple(notes))


def _unread(parts: Sequence[RecentPart], group_id: str | None) -> str:
    """Return the start of a sentence about the records that were not read."""
    if group_id is not None:
        [part] = parts
        when = "" if part.start_ms is None else f" ({shown_time(part.start_ms)})"
        before = f"offset {part.start}{when} of {OFFSETS_TOPIC}-{part.number}"
    else:
        times = [part.start_ms for part in parts if part.start_ms is not None]
        numbers = [part.number for part in parts]
        time = shown_time(max(times)) if len(times) == len(parts) else "some time"
        before = f"{time} in {partition_list(numbers)}"
    return f"Records before {before} were not read"
