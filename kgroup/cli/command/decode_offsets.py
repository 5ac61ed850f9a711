"""`kgroup decode-offsets`: select records of files or of a cluster, decode and write them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeVar

import click

from kgroup.atomic_file import FileKind
from kgroup.cli.command_group import Command
from kgroup.cli.option.common import (
    ID,
    LOG_DIR_OPTION,
    PATH,
    SAMPLE_OPTION,
    TOPIC,
    examples,
    given_options,
    log_dirs,
    options_into,
    output_options,
    parsed,
    parsed_time,
    regex_option,
)
from kgroup.cli.option.connection import Connection, connection_options
from kgroup.cli.option.file import OutputFile, input_files, output_file_option
from kgroup.cli.option.parameter import parse_end, parse_record_bytes
from kgroup.cli.option.suggestion import suggest_groups, suggest_topics
from kgroup.cli.output.context import (
    Output,
    check_reader,
    is_styled,
    json_errors,
    naming,
    show,
    unsaved,
    warn,
    warn_notes,
    warn_of,
    write_or_page,
)
from kgroup.cli.output.progress import ProgressLine
from kgroup.cli.shell.suggestion import suggest_record_types
from kgroup.errors import ExitStatus, InputError, near_names
from kgroup.model.instant import shown_time
from kgroup.model.pattern import Pattern

if TYPE_CHECKING:
    import pyarrow as pa

    from kgroup.columnar.log_reader import Logs
    from kgroup.model.problem import Problem
    from kgroup.model.segment import Segment
    from kgroup.operation.decode import Decoding, Selection
    from kgroup.render.record import RecordBatches
    from kgroup.source.broker.live_log import LiveLog


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Values of the filter options, by parameter name."""

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
        """Whether only committed records are selected."""
        return self.isolation == "read-committed"

    def check(self) -> None:
        """Raise a usage error if the time range is empty."""
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise click.UsageError(
                f"--since must be earlier than --until, found --since {shown_time(self.since)} and "
                f"--until {shown_time(self.until)}"
            )

    def selection(self) -> Selection:
        """Return the selection of rows."""
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


def _parse_types(value: str) -> frozenset[str]:
    from kgroup.protocol.record.coordinator_record import RECORD_TYPES

    known = {name.lower(): name for name in RECORD_TYPES}
    names = [name.strip() for name in value.split(",")]
    unknown = [name for name in names if name.lower() not in known]
    if unknown:
        suggestion = near_names(unknown[0], RECORD_TYPES)
        types = ", ".join(RECORD_TYPES)
        raise ValueError(f"unknown record type {', '.join(unknown)}; expected: {types}{suggestion}")
    return frozenset(known[name.lower()] for name in names)


filter_options = options_into(
    "wanted",
    RecordFilter,
    click.option(
        "--from-offset",
        metavar="N",
        type=click.IntRange(min=0, max=2**63 - 1),
        help="Start at this offset of __consumer_offsets.",
    ),
    click.option(
        "--group",
        "groups",
        metavar="ID",
        multiple=True,
        type=ID,
        shell_complete=suggest_groups,
        help="Select records of this group. Repeatable.",
    ),
    regex_option,
    click.option(
        "--topic",
        "topics",
        metavar="NAME",
        multiple=True,
        type=TOPIC,
        shell_complete=suggest_topics,
        help="Select offset commits for this topic. Repeatable.",
    ),
    click.option(
        "--partition",
        "topic_partitions",
        metavar="N",
        multiple=True,
        type=click.IntRange(min=0, max=2**31 - 1),
        help="Select offset commits for this partition of a topic. Repeatable.",
    ),
    click.option(
        "--type",
        "types",
        metavar="A,B,...",
        callback=parsed(_parse_types),
        shell_complete=suggest_record_types,
        help="Select records of these types: OffsetCommit, GroupMetadata, ConsumerGroupMetadata, "
        "...",
    ),
    click.option(
        "--since",
        metavar="TIME",
        callback=parsed_time(),
        help="Select records from this time on: 03:12, RFC 3339, epoch milliseconds, or an age "
        "(2h).",
    ),
    click.option(
        "--until", metavar="TIME", callback=parsed_time(), help="Select records before this time."
    ),
    click.option(
        "--isolation",
        type=click.Choice(["read-uncommitted", "read-committed"]),
        default="read-uncommitted",
        show_default=True,
        help="read-committed leaves out records of aborted and open transactions, and markers.",
    ),
)
"""Adds `--from-offset` to `--isolation`; the command takes ``wanted: RecordFilter``."""


@contextmanager
def file_records(
    inputs: Sequence[Path], include: Sequence[str], partitions: Sequence[int]
) -> Iterator[tuple[list[Segment], list[Problem], Callable[[Path], str]]]:
    """Yield the segments to read, problems, and a function that returns the name of a file.

    Notes about skipped segments are printed.

    Args:
        inputs: files, folders, `-`.
        include: statuses of segments that a broker would remove, to read nevertheless.
        partitions: partitions to read; empty for all.

    Raises:
        InputError: there is nothing to read.
    """
    with input_files(inputs) as (paths, name):
        segments, unread = _segments(paths, include, partitions)
        yield segments, unread, name


def _segments(
    inputs: Sequence[Path], include: Sequence[str], partitions: Sequence[int]
) -> tuple[list[Segment], list[Problem]]:
    from kgroup.model.segment import SegmentStatus, left_out_notes
    from kgroup.source.log.segment_file import find_segments, without_replicas

    problems: list[Problem] = []
    statuses = {SegmentStatus(word) for word in include}
    segments = find_segments(inputs, include=statuses, on_problem=problems.append)
    if partitions:
        existing = sorted({s.partition for s in segments if s.partition is not None})
        segments = [segment for segment in segments if segment.partition in partitions]
        if not segments:
            raise InputError(
                f"no segment of partition {_list(partitions)} of __consumer_offsets found; there "
                f"are segments of {_list(existing) or 'no partition that is known'}"
            )
    notes = left_out_notes((str(segment.path), segment) for segment in segments)
    segments = without_replicas(segments, notes)
    warn_notes(notes)
    return segments, problems


@dataclass(frozen=True, slots=True)
class LiveChoice:
    """Selection of a cluster's `__consumer_offsets`.

    Attributes:
        partitions: partition numbers; empty: those of the named groups, or else all.
        wanted: filter of the records.
        last_offset: last offset to read.
        follow: continue to read new records; without a start position, only these.
    """

    partitions: Sequence[int]
    wanted: RecordFilter
    last_offset: int | None
    follow: bool


@contextmanager
def live_records(
    connection: Connection, choice: LiveChoice, on_progress: Callable[[LiveLog], None]
) -> Iterator[tuple[Sequence[Segment] | Logs, list[Problem], Callable[[Path], str]]]:
    """Yield the logs of a cluster; none, with a note, if it does not have the topic.

    Otherwise like `file_records`, but file names have no meaning.

    Args:
        connection: connection to the cluster.
        choice: selection of records.
        on_progress: called while records are fetched.

    Raises:
        BrokerError: the cluster does not answer, or the topic may not be described.
        InputError: none of the given partitions exists.
    """
    with (
        connection.open(of_silence=True) as cluster,
        TemporaryDirectory(prefix="kgroup-") as folder,
    ):
        topic = cluster.offsets_log(Path(folder), on_progress)
        if not topic.leaders:
            warn("note: The cluster shows no topic __consumer_offsets: there is nothing to decode.")
            yield [], [], str
            return
        from kgroup.source.broker.live_log import FollowedLogs, LiveLogs, StartPosition

        numbers = _numbers(choice, list(topic.leaders))
        start = StartPosition(choice.wanted.from_offset, choice.wanted.since)
        if not choice.follow:
            end = None if choice.last_offset is None else choice.last_offset + 1
            yield LiveLogs(topic, numbers, start, end), [], str
            return
        logs = FollowedLogs(
            topic,
            numbers,
            start if start.is_sought else StartPosition(at_end=True),
            committed=choice.wanted.is_committed,
            on_note=lambda text: warn(f"note: {text}"),
            pulse=check_reader,
        )
        yield logs, [], str


def _numbers(choice: LiveChoice, existing: Sequence[int]) -> list[int]:
    """Return the partitions to read; all records of a group are in one partition."""
    from kgroup.model.offsets_partition import offsets_partition

    if choice.partitions:
        numbers = [number for number in existing if number in choice.partitions]
        if not numbers:
            raise InputError(
                f"__consumer_offsets has no partition {_list(choice.partitions)}; it has "
                f"{existing[0]} to {existing[-1]}"
            )
        return numbers
    groups = () if choice.wanted.regex else choice.wanted.groups
    if groups:
        return sorted({offsets_partition(group, len(existing)) for group in groups})
    return list(existing)


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


T = TypeVar("T")

LEFTOVERS = ("deleted", "cleaned", "swap")
_NEEDS_AN_END = ("latest", "as_of", "stats", "output_path", "until")
_FOR_ONE_RECORD = ("key", "value", "output_path", "force", "form", "columns", "no_headers")


def _refuse_snapshot(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        raise click.UsageError(
            "a snapshot has groups, but no records; use --log-dir, or name segment files", ctx
        )


@click.command(
    "decode-offsets",
    cls=Command,
    epilog=examples(
        "kgroup decode-offsets --sample",
        "kgroup decode-offsets --sample --group order-service --type OffsetCommit -o jsonl",
        "kgroup decode-offsets --sample --latest -o csv --columns group,topic,committed_offset",
        "kgroup decode-offsets --sample --stats",
        "kgroup decode-offsets /var/lib/kafka/data --since 2h --parquet offsets.parquet",
        "kgroup decode-offsets __consumer_offsets-12 --as-of 2026-11-20T03:00:00Z",
        "cat 00000000000000000000.log | kgroup decode-offsets -",
        "kgroup decode-offsets -b kafka-1:9092 --group billing --since 2h",
        "kgroup decode-offsets -b kafka-1:9092 --follow -o jsonl",
        "kgroup decode-offsets --key 00010001670001740000000c",
    ),
)
@click.argument("files", metavar="[PATH...]", nargs=-1, type=PATH)
@LOG_DIR_OPTION
@SAMPLE_OPTION
@connection_options
@click.option(
    "--follow",
    is_flag=True,
    help="Keep reading new records from the cluster, until interrupted. Starts with new records, "
    "or at --from-offset or --since.",
)
@click.option(
    "--key",
    metavar="BYTES",
    callback=parsed(parse_record_bytes),
    help="Decode a single record instead of files: its key in hexadecimal, base64, or text with "
    "escapes (\\x00, \\u0000, \\000), such as a Python bytes literal.",
)
@click.option(
    "--value",
    metavar="BYTES",
    callback=parsed(parse_record_bytes),
    help="Value of the record with --key; without it, the record is a tombstone.",
)
@click.option(
    "--include",
    multiple=True,
    type=click.Choice(LEFTOVERS),
    help="Also read files that a broker would delete on startup. Repeatable.",
)
@click.option(
    "--offsets-partition",
    "offsets_partitions",
    metavar="N",
    multiple=True,
    type=click.IntRange(min=0, max=2**31 - 1),
    help="Read only this partition of __consumer_offsets. Repeatable.",
)
@filter_options
@click.option(
    "--latest", is_flag=True, help="View: the last record of each key, as compaction keeps it."
)
@click.option(
    "--as-of",
    metavar="TIME|OFFSET",
    callback=parsed_time(parse_end),
    help="View: the records that were current at this time, without tombstones. A number below "
    "10^11, or offset:N, is an offset, and requires a single partition of __consumer_offsets.",
)
@click.option(
    "--stats", is_flag=True, help="View: counts of records by type and group, batches and damage."
)
@click.option("--strict", is_flag=True, help="Stop at the first damage.")
@output_file_option(
    "--parquet",
    kind=FileKind.RECORDS,
    text="Write a Parquet file instead of standard output; replaces an existing one that kgroup "
    "wrote.",
    required=False,
)
@click.option("--snapshot", hidden=True, expose_value=False, callback=_refuse_snapshot)
@output_options("record.RECORD_COLUMNS", {"--stats": "record.STATS_COLUMNS"})
def command(
    files: Sequence[Path],
    log_dir: Sequence[Path],
    sample: bool,
    connection: Connection,
    follow: bool,
    key: bytes | None,
    value: bytes | None,
    include: Sequence[str],
    offsets_partitions: Sequence[int],
    wanted: RecordFilter,
    latest: bool,
    as_of: tuple[int | None, int | None] | None,
    stats: bool,
    strict: bool,
    target: OutputFile | None,
    output: Output,
) -> ExitStatus:
    """Decode records of __consumer_offsets, from files or a cluster.

    PATH is a segment file, a __consumer_offsets-N folder, a broker's log directory, or - for
    standard input. --bootstrap-server reads the topic of a live cluster instead, without joining a
    group or committing anything.

    With several filters, shows the records that match all of them. Time filters apply to the result
    of a view: --latest --until 7d shows keys that have not changed for a week.

    Of several replicas of a partition, only the one whose log ends last is read; a note says so.
    Damage is reported on standard error and skipped; the exit status is then 4.
    """
    inputs = [*files, *log_dirs(log_dir, sample=sample)]
    given = given_options()
    _check_one_of_two(given, files, inputs)
    is_live = _is_live(inputs, key, connection, include)
    wanted.check()
    _check_parquet(given)
    _check_follow(given, output.form, is_live)
    if key is not None:
        return _show_one(given, key, value, target, output)

    from kgroup.columnar.log_reader import AsOf
    from kgroup.operation.decode import decode

    writes_rows = target is None and not stats
    progress = ProgressLine(writes_rows=writes_rows, unit="partition" if is_live else "file")
    choice = LiveChoice(offsets_partitions, wanted, as_of and as_of[0], follow)
    with ExitStack() as stack:
        with json_errors(output):
            source, unread, name = stack.enter_context(
                live_records(connection, choice, progress.show_copied)
                if is_live
                else file_records(inputs, include, offsets_partitions)
            )
        decoding = decode(
            source,
            wanted.selection(),
            last_only=latest,
            as_of=None if as_of is None else AsOf(*as_of),
            strict=strict,
            with_batches=stats,
            problems=unread,
            name=name,
            on_compile=progress.on_compile,
            on_progress=(lambda log: None) if follow else progress.show_rows,
            on_problem=(lambda problem: warn_of([problem])) if follow else (lambda problem: None),
        )
        is_all = True
        if stats:
            _show_stats(decoding, output, progress)
        else:
            is_all = _show_rows(decoding, output, progress, target, is_endless=follow)
    if not is_all:  # names that are missing may be in the rest, which was not read
        return ExitStatus.PARTLY if decoding.log.problems else ExitStatus.DONE
    for missing in decoding.unseen:
        warn(f"note: found no records of {missing!r}; earlier records were not read")
    return decoding.exit_status


def _check_one_of_two(
    given: Mapping[str, str], files: Sequence[Path], inputs: Sequence[Path]
) -> None:
    if "value" in given and "key" not in given:
        raise click.UsageError("--value requires --key")
    if "key" in given and inputs:
        raise click.UsageError("--key decodes one record instead of files; leave out one of them")
    if "latest" in given and "as_of" in given:
        raise click.UsageError("--latest and --as-of are two views; choose one of them")
    if files and "sample" in given:
        raise click.UsageError("PATH and --sample are two sources; choose one of them")


def _check_parquet(given: Mapping[str, str]) -> None:
    if "output_path" not in given:
        return
    if "stats" in given:
        raise click.UsageError("--parquet writes records, --stats counts them; choose one of them")
    if surplus := [given[name] for name in ("form", "no_headers") if name in given]:
        raise click.UsageError(f"--parquet writes only a file; leave out {' and '.join(surplus)}")


def _is_live(
    inputs: Sequence[Path], key: bytes | None, connection: Connection, include: Sequence[str]
) -> bool:
    """Return whether to read a cluster; explicit options win over the environment."""
    option = connection.chosen_by
    if inputs and option:
        raise click.UsageError(
            f"{option} (a cluster) and files are two sources; choose one of them"
        )
    if not (inputs or key is not None or option or connection.is_default):
        raise click.UsageError(
            "no input given: use PATH... (files and folders), - (standard input), --log-dir PATH, "
            "--sample, --bootstrap-server HOST:PORT or --profile NAME (a cluster), or --key BYTES "
            "(one record)"
        )
    if key is not None or inputs:
        return False
    if include:
        raise click.UsageError("--include applies to files; leave it out for a cluster")
    return True


def _check_follow(given: Mapping[str, str], form: str, is_live: bool) -> None:
    if "follow" not in given:
        return
    if not is_live:
        raise click.UsageError(
            "--follow reads new records from a cluster; use --bootstrap-server HOST:PORT"
        )
    ends = [given[name] for name in _NEEDS_AN_END if name in given]
    if form == "json":
        ends.append("-o json")
    if ends:
        raise click.UsageError(
            f"--follow never ends, but {' and '.join(ends)} "
            f"{'needs' if len(ends) == 1 else 'need'} an end; leave out one or the other"
        )


def _show_one(
    given: Mapping[str, str],
    key: bytes,
    value: bytes | None,
    target: OutputFile | None,
    output: Output,
) -> ExitStatus:
    from kgroup.operation.decode import decode_message

    if surplus := [option for name, option in given.items() if name not in _FOR_ONE_RECORD]:
        raise click.UsageError(f"--key decodes one record; leave out {', '.join(surplus)}")
    decoded = decode_message(key, value)
    _write(lambda function: map(function, decoded.data), lambda: decoded.errors, target, output)
    warn_of(decoded.errors)
    return decoded.exit_status


def _write(
    rows: RecordBatches,
    problems: Callable[[], Iterable[object]],
    target: OutputFile | None,
    output: Output,
    *,
    is_endless: bool = False,
) -> bool:
    """Write rows; return whether all were written, see `write_or_page`."""
    if target is not None:
        from kgroup.render.parquet import write_parquet

        # Not durable, to avoid waiting until a large file is on the disk.
        with naming(str(target.path)), target.open(durable=False) as records:
            count = write_parquet(records, rows, output.columns)
        warn(f"{count} record{'' if count == 1 else 's'} written to {target.path}")
        return True
    from kgroup.render.record import record_text

    return write_or_page(
        record_text(
            rows,
            output.form,
            output.columns,
            headers=output.headers,
            terminal=is_styled(),
            at_once=is_endless,
            errors=problems,
        ),
        output,
        at_once=is_endless,
    )


def _show_rows(
    decoding: Decoding,
    output: Output,
    progress: ProgressLine,
    target: OutputFile | None,
    *,
    is_endless: bool,
) -> bool:
    """Write rows, notes and problems; return whether all rows were written."""

    def rows_of_file(function: Callable[[pa.RecordBatch], T]) -> Iterator[T]:
        """Yield all rows; if there are none, raise an error to keep the existing file."""
        yield from decoding.map(function)
        assert target is not None
        if (error := unsaved(decoding.exit_status, "write", target.path)) is not None:
            progress.finish()
            warn_of(decoding.problems())
            raise error

    rows = decoding.map if target is None else rows_of_file
    is_all = _write(rows, decoding.problems, target, output, is_endless=is_endless)
    progress.finish()
    warn_notes(decoding.notes if is_all else decoding.log.notes)
    if not is_endless:
        warn_of(decoding.problems() if is_all else decoding.log.problems)
    return is_all


def _show_stats(decoding: Decoding, output: Output, progress: ProgressLine) -> None:
    from kgroup.operation.decode import count_records
    from kgroup.render.record import stats_page

    report = count_records(decoding)
    progress.finish()
    warn_notes(decoding.notes)
    show(report, output, stats_page)
