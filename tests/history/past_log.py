"""Logs of groups whose past is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kgroup.model.delta import Delta
from kgroup.model.group import Group
from kgroup.model.record import DecodedRecord
from tests.history.builds import RECORDED
from tests.history.recorded import time_of

T = 1_700_000_000_000

LOGS = [
    path
    for path in RECORDED
    if path.name
    in (
        "log-dir",
        "compacted-4.3.1",
        "kafka-0.9.0.1",
        "kafka-2.8.2",
        "kafka-4.3.1",
        "streams-3.9.2",
    )
]
"""Each type of group, transactions, no times, and what compaction leaves."""


def expected_groups(
    log: dict[int, list[DecodedRecord]], at_ms: int, names: dict[str, str]
) -> dict[str, Group]:
    groups: dict[str, Group] = {}
    for partition, records in log.items():
        in_time = {
            each.offset
            for each in records
            if (time_ms := time_of(each)) is not None and time_ms <= at_ms
        }
        delta = Delta(partition)
        for record in records:
            time_ms = time_of(record)
            if record.offset in in_time or (
                time_ms is None and record.offset <= max(in_time, default=-1)
            ):
                delta.replay(record)
        groups |= delta.groups(names)
    # The tables do not have the keys of resolved expressions, and no description shows them.
    return {
        name: replace(group, resolved_regexes={}) if group.resolved_regexes else group
        for name, group in groups.items()
    }


def commit(offset: int, committed: int, **more: Any) -> dict[str, Any]:
    return {
        "offsets_partition": 7,
        "log_offset": offset,
        "time_ms": T + offset,
        "group_id": "g",
        "topic": "orders",
        "partition": 0,
        "committed_offset": committed,
        "commit_timestamp_ms": T + offset,
        "metadata": "",
        **more,
    }


def end(second: int, log_end: int | None, partition: int = 0) -> dict[str, Any]:
    return {
        "topic": "orders",
        "partition": partition,
        "log_start_offset": 0,
        "log_end_offset": log_end,
        "time_ms": T + second,
    }
