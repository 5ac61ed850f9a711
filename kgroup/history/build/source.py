"""What a warehouse is built from: files, or a live cluster; and the build from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from kgroup.errors import InputError
from kgroup.history.build.build import Build, ClusterReport
from kgroup.history.input.live_source import ask_live
from kgroup.history.input.segment_source import Sources, find_sources
from kgroup.history.sql.log_ends import ends_of
from kgroup.model.offsets_partition import OFFSETS_TOPIC
from kgroup.operation.report import Report
from kgroup.source.config.client_config import ClientConfig
from kgroup.source.snapshot.file import is_snapshot, read_snapshot

BuildFrom: TypeAlias = Callable[[Build], Report[ClusterReport]]
"""Brings a warehouse up to date, and commits.

Raises:
    OSError: a file cannot be written.
    InputError: a file of the warehouse, or of the configuration, cannot be read.
    BrokerError: no broker answers.
"""


def build_from_files(locations: Sequence[str], cluster: str | None) -> BuildFrom:
    """Look for segments and snapshots, before a warehouse is made; give what builds from them.

    Args:
        locations: see `find_sources`; or files of snapshots.
        cluster: name of their cluster; None: the id that they tell.

    Raises:
        InputError: there is nothing to read, or a location does not tell its cluster.
    """
    files = [Path(location) for location in locations if is_snapshot(Path(location))]
    snapshots = [read_snapshot(file) for file in files]
    names = [
        _name_of(file, cluster or snapshot.cluster_id)
        for file, snapshot in zip(files, snapshots, strict=True)
    ]
    others = [location for location in locations if Path(location) not in files]
    sources = find_sources(others, cluster) if others else Sources((), {}, (), ())
    if sources.problems and not (sources.segments or files):
        problem = sources.problems[0]
        raise InputError(f"{problem.path}: {problem.reason}", path=problem.path)

    def build_from(build: Build) -> Report[ClusterReport]:
        for name, snapshot in zip(names, snapshots, strict=True):
            build.add_topic_names(name, snapshot.topic_names)
            build.add_log_ends(name, ends_of(snapshot))
        for name, topic_names in sources.topic_names.items():
            build.add_topic_names(name, topic_names)
        build.read(sources.segments)
        report = build.commit()
        summaries = _summaries(report, "segment") if others else ()
        return replace(
            report,
            errors=(*sources.problems, *report.errors),
            notes=(*report.notes, *sources.notes, *summaries),
        )

    return build_from


def _name_of(file: Path, cluster: str | None) -> str:
    if cluster is None:
        raise InputError(
            f"{file}: expected the id of a cluster, found none; name it with --cluster NAME",
            path=str(file),
        )
    return cluster


def build_from_cluster(config: ClientConfig, cluster: str | None, timeout_s: float) -> BuildFrom:
    """Ask a cluster, so that one that does not answer leaves no new warehouse behind.

    Args:
        config: how to connect.
        cluster: name to give it; None: its id.
        timeout_s: see `ask_live`.

    Raises:
        BrokerError: no broker answers, or the topic may not be described.
        InputError: the cluster has no id, or a file of the configuration cannot be read.
    """
    ask_live(config, cluster, timeout_s)

    def build_from(build: Build) -> Report[ClusterReport]:
        source = ask_live(config, cluster, timeout_s)  # until now others may have read on
        build.read_live(source)
        report = build.commit()
        notes = [*report.notes, *_summaries(report, "partition")]
        if not source.ranges and not source.problems:
            notes.append(f"{source.cluster} shows no topic {OFFSETS_TOPIC}: there is no history.")
        return replace(report, notes=tuple(notes))

    return build_from


def _summaries(report: Report[ClusterReport], what: str) -> Iterator[str]:
    for each in report.data:
        count = f"{each.segments_read:,} {what}{'' if each.segments_read == 1 else 's'}"
        yield f"{each.cluster}: {count} read, {each.segments_skipped:,} had nothing new."
