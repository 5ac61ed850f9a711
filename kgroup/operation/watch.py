"""Describe groups again and again, and tell what has changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import count

from kgroup.errors import BrokerError, KgroupError, ProblemKind
from kgroup.model.problem import Problem
from kgroup.operation.change import Change, compare
from kgroup.operation.description import GroupDescription
from kgroup.operation.report import Report


@dataclass(frozen=True, slots=True)
class Round:
    """One of the descriptions of a watch.

    Attributes:
        groups: as they are known now, by id.
        changes: since the round before; in the first one every group is found.
        time_ms: epoch milliseconds, when that was.
        has_failed: whether nothing could be read.
    """

    groups: Collection[GroupDescription]
    changes: tuple[Change, ...]
    report: Report[GroupDescription]
    time_ms: int
    has_failed: bool


def watch(read: Callable[[], Report[GroupDescription]]) -> Iterator[Round]:
    """Yield rounds without end, each when it is asked for.

    Args:
        read: describes the groups once.

    Raises:
        KgroupError: the first round fails; what later ones meet is an error in their reports.
    """
    known: dict[str, GroupDescription] = {}
    for number in count():
        has_failed = False
        try:
            report = read()
        except (KgroupError, OSError) as error:
            if not number:
                raise
            has_failed = True
            kind = error.kind if isinstance(error, KgroupError) else ProblemKind.UNREADABLE
            broker = error.broker_id if isinstance(error, BrokerError) else None
            report = Report((), errors=(Problem(kind, f"{error}", broker=broker),))
        now_ms = time.time_ns() // 1_000_000
        changes, known = compare(known, report, now_ms)
        yield Round(known.values(), changes, report, now_ms, has_failed)
