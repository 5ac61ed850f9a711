"""`kgroup decode-offsets`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kgroup.cli.option.common import (
    ID,
    NEW_FILE,
    PATH,
    examples,
    given_options,
    log_dir_options,
    output_options,
    parsed,
    regex_option,
)
from kgroup.cli.option.connection import Connection, connection_options
from kgroup.cli.option.parameter import parse_bytes, parse_end, parse_time
from kgroup.cli.option.record_source import LiveChoice, file_records, live_records
from kgroup.cli.option.suggestion import suggest_groups, suggest_topics
from kgroup.cli.output.context import (
    documented,
    is_terminal,
    naming,
    show,
    warn,
    warn_of,
    write,
)
from kgroup.cli.output.form import Output
from kgroup.cli.output.progress import Progress
from kgroup.cli.shell.suggestion import suggest_record_types
from kgroup.errors import ExitStatus
from kgroup.model.pattern import Pattern
from kgroup.render.cell import rfc3339

if TYPE_CHECKING:
    from kgroup.operation.decode.decode import Decoding
    from kgroup.render.record.record import Rows

__all__ = ["command"]

LEFTOVERS = ("deleted", "cleaned", "swap")
_NEEDS_AN_END = ("latest", "as_of", "stats", "parquet", "until")
_FOR_ONE_RECORD = ("key", "value", "parquet", "form", "columns", "no_headers")


def _parse_types(value: str) -> frozenset[str]:
    from kgroup.protocol.record.coordinator_record import RECORD_TYPES

    known = {name.lower(): name for name in RECORD_TYPES}
    names = [name.strip() for name in value.split(",")]
    unknown = [name for name in names if name.lower() not in known]
    if unknown:
        raise ValueError(f"no type {', '.join(unknown)}; there are: {', '.join(RECORD_TYPES)}")
    return frozenset(known[name.lower()] for name in names)


def _refuse_snapshot(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        raise click.UsageError(
            "--snapshot has groups, not the records that they were made of; choose --log-dir, or "
            "name segment files",
            ctx,
        )


@click.command(
    "decode-offsets",
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
@log_dir_options
@connection_options
@click.option(
    "--follow",
    is_flag=True,
    help="Go on with records of the cluster as they come, until interrupted. Begins with what "
    "comes from now on, or at --from-offset or --since.",
)
@click.option(
    "--key",
    metavar="BYTES",
    callback=parsed(parse_bytes),
    help="Decode one record instead of files: its key, hexadecimal or base64.",
)
@click.option(
    "--value",
    metavar="BYTES",
    callback=parsed(parse_bytes),
    help="The value that belongs to --key; without it the record is a tombstone.",
)
@click.option(
    "--include",
    multiple=True,
    type=click.Choice(LEFTOVERS),
    help="Also read files that a broker would remove when it starts. Repeat it for more.",
)
@click.option(
    "--offsets-partition",
    "offsets_partitions",
    metavar="N",
    multiple=True,
    type=click.IntRange(min=0, max=2**31 - 1),
    help="Read only this partition of __consumer_offsets. Repeat it for more.",
)
@click.option(
    "--from-offset",
    metavar="N",
    type=click.IntRange(min=0, max=2**63 - 1),
    help="Begin at this offset of __consumer_offsets.",
)
@click.option(
    "--group",
    "groups",
    metavar="ID",
    multiple=True,
    type=ID,
    shell_complete=suggest_groups,
    help="Records about this group. Repeat it for more.",
)
@regex_option
@click.option(
    "--topic",
    "topics",
    metavar="NAME",
    multiple=True,
    type=ID,
    shell_complete=suggest_topics,
    help="Offset commits for this topic. Repeat it for more.",
)
@click.option(
    "--partition",
    "topic_partitions",
    metavar="N",
    multiple=True,
    type=click.IntRange(min=0, max=2**31 - 1),
    help="Offset commits for this partition of a topic. Repeat it for more.",
)
@click.option(
    "--type",
    "types",
    metavar="A,B,...",
    callback=parsed(_parse_types),
    shell_complete=suggest_record_types,
    help="Records of these types: OffsetCommit, GroupMetadata, ConsumerGroupMetadata, ...",
)
@click.option(
    "--since",
    metavar="TIME",
    callback=parsed(parse_time),
    help="Records of this time or later: RFC 3339, epoch milliseconds, or how long ago (2h).",
)
@click.option(
    "--until", metavar="TIME", callback=parsed(parse_time), help="Records before this time."
)
@click.option(
    "--isolation",
    type=click.Choice(["read-uncommitted", "read-committed"]),
    default="read-uncommitted",
    show_default=True,
    help="read-committed leaves out aborted and open transactions, and markers.",
)
@click.option(
    "--latest", is_flag=True, help="View: the last record of each key, what compaction keeps."
)
@click.option(
    "--as-of",
    metavar="TIME|OFFSET",
    callback=parsed(parse_end),
    help="View: the records that were current then, without tombstones. A number below 10^11, or "
    "offset:N, is an offset, and needs one partition of __consumer_offsets.",
)
@click.option(
    "--stats", is_flag=True, help="View: count records by type and group, batches, and damage."
)
@click.option("--strict", is_flag=True, help="Stop at the first damage.")
@click.option(
    "--parquet",
    metavar="FILE",
    type=NEW_FILE,
    help="Write a Parquet file, and nothing to standard output.",
)
@click.option("--snapshot", hidden=True, expose_value=False, callback=_refuse_snapshot)
@output_options
def command(
    files: Sequence[Path],
    paths: Sequence[Path],
    connection: Connection,
    follow: bool,
    key: bytes | None,
    value: bytes | None,
    include: Sequence[str],
    offsets_partitions: Sequence[int],
    from_offset: int | None,
    groups: Sequence[str],
    regex: Pattern | None,
    topics: Sequence[str],
    topic_partitions: Sequence[int],
    types: frozenset[str] | None,
    since: int | None,
    until: int | None,
    isolation: str,
    latest: bool,
    as_of: tuple[int | None, int | None] | None,
    stats: bool,
    strict: bool,
    parquet: Path | None,
    output: Output,
) -> ExitStatus:
    """Read the records of __consumer_offsets.

    PATH is a segment file, a __consumer_offsets-N folder, a broker's log directory, or - for
    standard input; --bootstrap-server reads the topic of a live cluster instead, without joining
    or committing anything.

    A record is shown that passes every filter given. Filters on time choose from what a view
    gives: --latest --until 7d shows keys that have not changed for a week.

    Of several replicas of a partition only the one whose log ends last is read; a note says so.
    Damage is reported on standard error and passed over; the exit status is then 4.
    """
    if value is not None and key is None:
        raise click.UsageError("--value belongs to --key, which is missing")
    inputs = [*files, *paths]
    if key is not None and inputs:
        raise click.UsageError("--key decodes one record in place of files; leave out one of them")
    is_live = _is_live(inputs, key, connection)
    if latest and as_of is not None:
        raise click.UsageError("--latest and --as-of are two views; choose one of them")
    if since is not None and until is not None and since >= until:
        raise click.UsageError(
            f"no time lies between --since {rfc3339(since)} and --until {rfc3339(until)}; --since "
            "must be the earlier one"
        )
    given = given_options()
    if files and "sample" in given:
        raise click.UsageError("PATH and --sample are two sources; choose one of them")
    if parquet is not None:
        if stats:
            raise click.UsageError(
                "--parquet writes records, --stats counts them; choose one of them"
            )
        if parquet == Path("-"):
            raise click.UsageError("--parquet needs the name of a file, not - (standard output)")
        if surplus := [given[name] for name in ("form", "no_headers") if name in given]:
            raise click.UsageError(
                f"--parquet writes a file and nothing else; leave out {' and '.join(surplus)}"
            )

    if follow:
        _check_follow(given, output.form, is_live)
    if is_live and include:
        raise click.UsageError("--include is about files; a cluster has none that it would remove")

    from kgroup.columnar.log_reader import AsOf
    from kgroup.operation.decode.decode import decode, decode_message
    from kgroup.operation.decode.selection import NOT_COMMITTED, Selection

    if key is not None:
        if surplus := [option for name, option in given.items() if name not in _FOR_ONE_RECORD]:
            raise click.UsageError(f"--key decodes one record; leave out {', '.join(surplus)}")
        one = decode_message(key, value)
        _write(lambda function: map(function, one.data), lambda: one.errors, parquet, output)
        warn_of(one.errors)
        return one.exit_status
    selection = Selection(
        groups=frozenset(groups),
        group_pattern=regex,
        topics=frozenset(topics),
        topic_partitions=frozenset(topic_partitions),
        types=types or frozenset(),
        from_offset=from_offset,
        since_ms=since,
        until_ms=until,
        without_statuses=NOT_COMMITTED if isolation == "read-committed" else frozenset(),
    )
    progress = Progress(
        writes_rows=parquet is None and not stats, unit="partition" if is_live else "file"
    )
    choice = LiveChoice(
        offsets_partitions,
        () if regex else groups,
        from_offset,
        since,
        end=None if as_of is None or as_of[0] is None else as_of[0] + 1,
        follow=follow,
        committed=isolation == "read-committed",
    )
    with ExitStack() as stack:
        with documented("decode-offsets", output):
            source, unread, name = stack.enter_context(
                live_records(connection, choice, progress.show_copied)
                if is_live
                else file_records(inputs, include, offsets_partitions)
            )
        decoding = decode(
            source,
            selection,
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
        if stats:
            _show_stats(decoding, output, progress)
        else:
            _write(decoding.map, decoding.problems, parquet, output, is_endless=follow)
            progress.finish()
            warn_of(() if follow else decoding.problems())
    for missing in decoding.unseen:
        warn(f"note: nothing about {missing!r} was met; what stands before was not looked at")
    return decoding.exit_status


def _is_live(inputs: Sequence[Path], key: bytes | None, connection: Connection) -> bool:
    """Tell whether a cluster is to be asked: what is explicit wins over the environment."""
    option = connection.chosen_by
    if inputs and option:
        raise click.UsageError(
            f"{option} (a cluster) and files are two sources; choose one of them"
        )
    if not (inputs or key is not None or option or connection.is_default):
        raise click.UsageError(
            "what is to be decoded? Choose PATH... (files and folders), - (standard input), "
            "--log-dir PATH, --sample, --bootstrap-server HOST:PORT or --profile NAME (a cluster), "
            "or --key BYTES (one record)"
        )
    return key is None and not inputs


def _check_follow(given: Mapping[str, str], form: str, is_live: bool) -> None:
    if not is_live:
        raise click.UsageError(
            "--follow waits for records of a cluster; choose --bootstrap-server HOST:PORT"
        )
    ends = [given[name] for name in _NEEDS_AN_END if name in given]
    if form == "json":
        ends.append("-o json")
    if ends:
        raise click.UsageError(
            f"--follow never comes to an end, which {' and '.join(ends)} "
            f"{'needs' if len(ends) == 1 else 'need'}; leave out one or the other"
        )


def _write(
    rows: "Rows",
    problems: Callable[[], Iterable[object]],
    parquet: Path | None,
    output: Output,
    *,
    is_endless: bool = False,
) -> None:
    if parquet is not None:
        from kgroup.render.record.parquet import write_parquet

        with naming(str(parquet)):
            count = write_parquet(parquet, rows, output.columns)
        warn(f"{count} record{'' if count == 1 else 's'} written to {parquet}")
        return
    from kgroup.render.record.record import record_text

    write(
        record_text(
            rows,
            output.form,
            output.columns,
            headers=output.headers,
            terminal=is_terminal(),
            at_once=is_endless,
            errors=problems,
        ),
        at_once=is_endless,
    )


def _show_stats(decoding: "Decoding", output: Output, progress: Progress) -> None:
    from kgroup.operation.decode.statistics import count_records
    from kgroup.render.record.statistics import stats_sheet, stats_text

    report = count_records(decoding)
    progress.finish()
    show("decode-offsets", report, output, stats_sheet, stats_text)
