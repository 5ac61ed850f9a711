"""Options that choose records of `__consumer_offsets` by what they say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from kgroup.cli.option.common import ID, add_options, parsed, regex_option
from kgroup.cli.option.parameter import parse_time
from kgroup.cli.option.suggestion import suggest_groups, suggest_topics
from kgroup.cli.shell.suggestion import suggest_record_types
from kgroup.errors import near_names
from kgroup.model.instant import rfc3339
from kgroup.model.pattern import Pattern

if TYPE_CHECKING:
    from kgroup.operation.decode import Selection


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """What the options say, each by the name that the command line knows it by."""

    from_offset: int | None
    groups: Sequence[str]
    regex: Pattern | None
    topics: Sequence[str]
    topic_partitions: Sequence[int]
    types: frozenset[str] | None
    since: int | None
    until: int | None
    isolation: str

    @property
    def is_committed(self) -> bool:
        """Whether only what was committed is wanted."""
        return self.isolation == "read-committed"

    def check(self) -> None:
        """Refuse, as wrong usage, a range of time that has none."""
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise click.UsageError(
                f"no time lies between --since {rfc3339(self.since)} and --until "
                f"{rfc3339(self.until)}; --since must be the earlier one"
            )

    def selection(self) -> Selection:
        """Give the same as a selection of rows."""
        from kgroup.operation.decode import NOT_COMMITTED, Selection

        return Selection(
            groups=frozenset(self.groups),
            group_pattern=self.regex,
            topics=frozenset(self.topics),
            topic_partitions=frozenset(self.topic_partitions),
            types=self.types or frozenset(),
            from_offset=self.from_offset,
            since_ms=self.since,
            until_ms=self.until,
            without_statuses=NOT_COMMITTED if self.is_committed else frozenset(),
        )


def filter_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--from-offset` to `--isolation`; the command takes ``wanted: RecordFilter``."""

    @wraps(command)
    def with_filter(**given: Any) -> Any:
        chosen = {name: given.pop(name) for name in RecordFilter.__slots__}
        return command(wanted=RecordFilter(**chosen), **given)

    return add_options(with_filter, *_OPTIONS)


def _parse_types(value: str) -> frozenset[str]:
    from kgroup.protocol.record.coordinator_record import RECORD_TYPES

    known = {name.lower(): name for name in RECORD_TYPES}
    names = [name.strip() for name in value.split(",")]
    unknown = [name for name in names if name.lower() not in known]
    if unknown:
        meant = near_names(unknown[0], RECORD_TYPES)
        there = ", ".join(RECORD_TYPES)
        raise ValueError(f"no type {', '.join(unknown)}; there are: {there}{meant}")
    return frozenset(known[name.lower()] for name in names)


_OPTIONS: tuple[Callable[..., Any], ...] = (
    click.option(
        "--from-offset",
        metavar="N",
        type=click.IntRange(min=0, max=2**63 - 1),
        help="Begin at this offset of __consumer_offsets.",
    ),
    click.option(
        "--group",
        "groups",
        metavar="ID",
        multiple=True,
        type=ID,
        shell_complete=suggest_groups,
        help="Records about this group. Repeat it for more.",
    ),
    regex_option,
    click.option(
        "--topic",
        "topics",
        metavar="NAME",
        multiple=True,
        type=ID,
        shell_complete=suggest_topics,
        help="Offset commits for this topic. Repeat it for more.",
    ),
    click.option(
        "--partition",
        "topic_partitions",
        metavar="N",
        multiple=True,
        type=click.IntRange(min=0, max=2**31 - 1),
        help="Offset commits for this partition of a topic. Repeat it for more.",
    ),
    click.option(
        "--type",
        "types",
        metavar="A,B,...",
        callback=parsed(_parse_types),
        shell_complete=suggest_record_types,
        help="Records of these types: OffsetCommit, GroupMetadata, ConsumerGroupMetadata, ...",
    ),
    click.option(
        "--since",
        metavar="TIME",
        callback=parsed(parse_time),
        help="Records of this time or later: RFC 3339, epoch milliseconds, or how long ago (2h).",
    ),
    click.option(
        "--until", metavar="TIME", callback=parsed(parse_time), help="Records before this time."
    ),
    click.option(
        "--isolation",
        type=click.Choice(["read-uncommitted", "read-committed"]),
        default="read-uncommitted",
        show_default=True,
        help="read-committed leaves out aborted and open transactions, and markers.",
    ),
)
