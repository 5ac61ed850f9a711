"""Dry runs as they are asked for: of a group or of specs, changed first, by one strategy or all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from kgroup.assignor.spec import GroupSpec, Software
from kgroup.errors import ExitStatus
from kgroup.operation.assign.client import later_note, software
from kgroup.operation.assign.group import read_group
from kgroup.operation.assign.run import Bounce, Run, bounced, compared, settled
from kgroup.operation.assign.spec import read_specs
from kgroup.operation.assign.what_if import Changes, changed, notes
from kgroup.operation.report import Report
from kgroup.source.base import GroupSource


class Mode(Enum):
    """Which rebalances are computed."""

    ONCE = auto()
    """The next one."""
    SETTLE = auto()
    """Also those that follow of themselves."""
    COMPARE = auto()
    """These, with every strategy."""
    BOUNCE = auto()
    """Those of a rolling restart."""


@dataclass(frozen=True, slots=True)
class AssignRequest:
    """What is asked about groups.

    Attributes:
        strategy: name of an assignor; None: each group's own.
        kafka_version: whose assignor is to be imitated; None: each group's own, or the newest.
        client: the library of the leaders of classic groups as `software` reads it, in place of a
            version of Kafka; None: as far as members tell it.
    """

    mode: Mode = Mode.ONCE
    strategy: str | None = None
    kafka_version: str | None = None
    client: str | None = None
    changes: Changes = field(default_factory=Changes)

    @property
    def software(self) -> Software | None:
        """The library that is asked for."""
        return None if self.client is None else software(self.client)


def assign_group(
    source: GroupSource, group_id: str, request: AssignRequest
) -> Report[Run | Bounce]:
    """Run the assignor of a source's group dry.

    Returns:
        One run, one for each strategy, best first, or one rolling restart; it is partly done where
        Kafka's own assignor fails.

    Raises:
        NotFoundError: there is no such group, or none of its members or topics is so called.
        InputError: nobody can tell what the group's members subscribe to.
        UsageError: there is no such strategy for the group, or a change makes no sense.
    """
    group = read_group(
        source,
        group_id,
        strategy=request.strategy,
        kafka_version=request.kafka_version,
        client=request.software,
        topics=request.changes.subscribed_topics,
    )
    return _assign(group, request)


def assign_specs(text: bytes, path: str, request: AssignRequest) -> Report[Run | Bounce]:
    """Run the assignors of specs dry, as `assign_group` does; what is no spec is an error.

    Args:
        text: JSON or JSON lines, see `read_specs`.
        path: what to call it in errors.
        request: what is asked.
    """
    read = read_specs(text, path, request.strategy, request.kafka_version, request.software)
    return _assign(read, request)


def _assign(read: Report[GroupSpec], request: AssignRequest) -> Report[Run | Bounce]:
    specs = [changed(spec, request.changes) for spec in read.data]
    run = _RUNS[request.mode]
    rows = tuple(row for spec in specs for row in run(spec))
    has_failed = any(row.error is not None for row in rows)
    later = None if request.client is None else later_note(request.client)
    of_changes = (note for spec in read.data for note in notes(spec, request.changes))
    told = tuple(dict.fromkeys((*filter(None, (later,)), *read.notes, *of_changes)))
    return Report(rows, read.errors, told, ExitStatus.PARTLY if has_failed else None)


_RUNS: Mapping[Mode, Callable[[GroupSpec], Sequence[Run] | Sequence[Bounce]]] = {
    Mode.ONCE: lambda spec: [settled(spec, alone=True)],
    Mode.SETTLE: lambda spec: [settled(spec)],
    Mode.COMPARE: compared,
    Mode.BOUNCE: lambda spec: [bounced(spec)],
}
