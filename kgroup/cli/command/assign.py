"""`kgroup assign`."""

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import click

from kgroup.cli.option.common import ID, PATH, examples, output_options
from kgroup.cli.option.input_file import STDIN
from kgroup.cli.option.source import Source, missing_source, source_options
from kgroup.cli.option.suggestion import suggest_groups, suggest_members, suggest_topics_of_group
from kgroup.cli.output.context import documented, is_terminal, show, uncollected
from kgroup.cli.output.form import Output
from kgroup.cli.shell.suggestion import suggest_strategies
from kgroup.errors import ExitStatus, InputError

if TYPE_CHECKING:
    from kgroup.operation.assign.what_if import AddedMembers

__all__ = ["command"]

_VERSIONS = ("4.3.1", "1.1.1", "0.8.2.2")
_MOST_ADDED = 10_000
_PIPE_WIDTH = 80


def _added(text: str) -> "AddedMembers":
    from kgroup.operation.assign.what_if import AddedMembers

    count, _, rest = text.partition(":")
    if "=" in count and not rest:
        count, rest = "", count
    if count and not (count.isdecimal() and 1 <= int(count) <= _MOST_ADDED):
        raise ValueError(f"expected a number from 1 to {_MOST_ADDED}, found {count!r}")
    known = {
        "client": "client_id",
        "instance": "instance_id",
        "rack": "rack",
        "topics": "topics",
        "host": "host",
        "streams": "streams",
    }
    fields: dict[str, Any] = {}
    for part in filter(None, rest.split(",")):
        name, equals, value = part.partition("=")
        if name not in known or not equals or not value:
            raise ValueError(
                "expected client=, instance=, rack=, topics=, host= or streams= with commas "
                f"between, found {part!r}"
            )
        fields[known[name]] = _added_value(name, value)
    return AddedMembers(int(count or 1), **fields)


def _added_value(name: str, value: str) -> object:
    if name == "topics":
        return tuple(value.split("+"))
    if name == "streams":
        if not (value.isdecimal() and 1 <= int(value) <= _MOST_ADDED):
            raise ValueError(f"streams=: expected 1 to {_MOST_ADDED}, found {value!r}")
        return int(value)
    return value


def _topic_count(text: str) -> tuple[str, int]:
    topic, equals, count = text.rpartition("=")
    if not equals or not topic or not re.fullmatch(r"\d{1,7}", count):
        raise ValueError(f"expected TOPIC=NUMBER, found {text!r}")
    return topic, int(count)


def _subscription(text: str) -> tuple[str, tuple[str, ...]]:
    member, equals, topics = text.rpartition("=")
    if not equals or not member:
        raise ValueError(f"expected MEMBER=TOPIC,..., found {text!r}")
    return member, tuple(filter(None, topics.split(",")))


def _each(parse: Callable[[str], Any]) -> Callable[..., Any]:
    def callback(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> list[Any]:
        try:
            return [parse(value) for value in values]
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None

    return callback


def _what_if(
    option: str,
    name: str,
    metavar: str,
    question: str,
    *,
    parse: Callable[[str], Any] = str,
    suggest: Callable[..., Any] | None = None,
    **more: Any,
) -> Callable[[Any], Any]:
    """Make an option that changes the group first; it may be repeated."""
    return click.option(
        option,
        name,
        metavar=metavar,
        multiple=True,
        callback=_each(parse),
        shell_complete=suggest,
        help=f"What if {question}",
        **more,
    )


@click.command(
    "assign",
    epilog=examples(
        "kgroup assign order-service --sample --dry-run",
        "kgroup assign order-service --sample --dry-run --strategy cooperative-sticky --settle",
        "kgroup assign order-service --sample --dry-run --add-member 2 --partitions orders=12",
        "kgroup assign order-service --sample --dry-run --compare",
        "kgroup assign stock-sync --sample --dry-run --add-member 1:host=depot-3,streams=2",
        "kgroup assign -b kafka-1:9092 billing --dry-run --remove-member billing-3-0a4f",
        "kgroup assign --dry-run --spec groups.jsonl -o jsonl",
    ),
)
@click.argument("group", required=False, type=ID, shell_complete=suggest_groups)
@click.option("--dry-run", is_flag=True, help="Compute the assignment; nothing is sent to anyone.")
@source_options(required=False)
@click.option(
    "--spec",
    metavar="FILE",
    type=PATH,
    help="Groups from JSON or JSON lines instead of a source; - is standard input.",
)
@click.option(
    "--strategy",
    metavar="NAME",
    shell_complete=suggest_strategies,
    help="Assignor: range, roundrobin, sticky, cooperative-sticky of classic groups, uniform or "
    "range of consumer groups, simple of share groups, range or roundrobin of ZooKeeper consumers."
    "  [default: the group's own; of ZooKeeper consumers the one that fits what they own]",
)
@click.option(
    "--kafka-version",
    type=click.Choice(_VERSIONS),
    help="Version of Kafka whose assignor is imitated.  [default: 4.3.1; of ZooKeeper consumers "
    "0.8.2.2]",
)
@click.option("--settle", is_flag=True, help="Also the rebalances that follow of themselves.")
@click.option("--grid", is_flag=True, help="Draw members and partitions in place of the tables.")
@click.option("--compare", is_flag=True, help="All strategies, ranked by moves and balance.")
@click.option(
    "--bounce", is_flag=True, help="Restart every member in turn; count what moves in all."
)
@_what_if(
    "--add-member",
    "added",
    "[N][:K=V,...]",
    "N members join? With client=, instance=, rack=, topics=A+B; ZooKeeper consumers: host=, "
    "streams=, topics=A+B.",
    parse=_added,
    is_flag=False,
    flag_value="1",
)
@_what_if("--remove-member", "removed", "ID", "a member leaves?", suggest=suggest_members)
@_what_if(
    "--restart-member",
    "restarted",
    "ID",
    "a member comes back with a new id and no memory?",
    suggest=suggest_members,
)
@_what_if(
    "--partitions",
    "grown",
    "TOPIC=N",
    "a topic has N partitions?",
    parse=_topic_count,
    suggest=suggest_topics_of_group,
)
@_what_if(
    "--add-topic",
    "added_topics",
    "TOPIC=N",
    "there is a new topic, and all members subscribe to it?",
    parse=_topic_count,
)
@_what_if(
    "--drop-topic", "dropped", "TOPIC", "a topic is deleted?", suggest=suggest_topics_of_group
)
@_what_if(
    "--subscribe",
    "subscribed",
    "ID=TOPIC,...",
    "a member subscribes to these topics instead?",
    parse=_subscription,
)
@click.option(
    "--leader",
    metavar="ID",
    shell_complete=suggest_members,
    help="What if this member assigns? It changes nothing where all are Kafka's own clients.",
)
@click.option("--fresh", is_flag=True, help="What if nobody remembers what it owned?")
@output_options
def command(
    group: str | None,
    dry_run: bool,
    source: Source,
    spec: Path | None,
    strategy: str | None,
    kafka_version: str | None,
    settle: bool,
    grid: bool,
    compare: bool,
    bounce: bool,
    added: "list[AddedMembers]",
    removed: Sequence[str],
    restarted: Sequence[str],
    grown: list[tuple[str, int]],
    added_topics: list[tuple[str, int]],
    dropped: Sequence[str],
    subscribed: list[tuple[str, tuple[str, ...]]],
    leader: str | None,
    fresh: bool,
    output: Output,
) -> ExitStatus:
    """Run a group's assignor dry: what would move, and how balanced it is.

    The answer is the one that Kafka's own Java assignor gives, order and mistakes included.
    """
    if not dry_run:
        raise click.UsageError(
            "the members of a group, or its coordinator, assign partitions; nobody else can. "
            "--dry-run shows what they would do"
        )
    if (group is None) == (spec is None):
        found = "neither" if group is None else "both"
        raise click.UsageError(f"name one group, or give --spec FILE; found {found}")
    if spec is not None and source.is_named:
        raise click.UsageError("--spec is instead of a source of groups; leave out one of them")
    if group is not None and source == Source():
        raise missing_source()
    if compare and (bounce or settle or strategy):
        raise click.UsageError(
            "--compare settles all strategies; leave out --strategy, --settle and --bounce"
        )
    if bounce and settle:
        raise click.UsageError("--bounce settles every step; leave out --settle")
    if grid and (compare or bounce):
        raise click.UsageError("--grid draws one assignment; leave out --compare and --bounce")
    if grid and (output.form != "table" or output.columns):
        raise click.UsageError("--grid is a drawing for people; leave it out, or -o and --columns")
    from kgroup.model.problem import Problem
    from kgroup.operation.assign import what_if
    from kgroup.operation.assign.run import Bounce, Run, bounced, compared, settled
    from kgroup.operation.assign.spec import as_asked, read_specs
    from kgroup.operation.report import Report
    from kgroup.render.group import assignment as render

    changes = what_if.Changes(
        drop_topics=dropped,
        add_topics=added_topics,
        partitions=grown,
        remove=removed,
        restart=restarted,
        add=added,
        subscribe=subscribed,
        leader=leader,
        fresh=fresh,
    )
    problems: list[Problem] = []
    lags: Mapping[tuple[str, int], int] = {}
    notes: tuple[str, ...] = ()
    click.get_current_context().with_resource(uncollected())
    with documented("assign", output):
        if spec is not None:
            specs = []
            for each in read_specs(_contents(spec), str(spec)):
                if isinstance(each, Problem):
                    problems.append(each)
                else:
                    specs.append(as_asked(each, strategy, kafka_version))
        else:
            from kgroup.operation.assign.group import read_group

            assert group is not None
            with source.that_has([group]).open() as opened:
                read = read_group(
                    opened,
                    group,
                    strategy=strategy,
                    kafka_version=kafka_version,
                    topics=changes.subscribed_topics,
                )
            specs, lags, notes = [read.spec], read.lags, read.notes
            problems += read.errors
        specs = [what_if.changed(each, changes) for each in specs]
        has_tables = {"headers": output.headers, "terminal": is_terminal()}
        outcomes: Sequence[Run | Bounce]
        rows: list[dict[str, Any]]
        page: Callable[[object], Iterable[str]] | None = None
        if compare:
            groups = [compared(each) for each in specs]
            outcomes = runs = [run for group_runs in groups for run in group_runs]
            rows = [render.run_object(run, lags) for run in runs]
            sheet = render.compared_sheet(groups)
            if len(groups) == 1 and output.form == "table" and not output.columns:
                sheet = sheet.select([column.name for column in sheet.columns[1:]])  # all but id
        elif bounce:
            outcomes = bounces = [bounced(each) for each in specs]
            rows = [render.bounce_object(each, lags) for each in bounces]
            sheet = render.bounces_sheet(bounces)

            def page(_: object) -> Iterable[str]:
                return render.bounces_text(bounces, output.form, **has_tables)

        else:
            outcomes = runs = [settled(each, alone=not settle) for each in specs]
            rows = [render.run_object(run, lags) for run in runs]
            sheet = render.moves_sheet(runs, lags)

            def page(_: object) -> Iterable[str]:
                width = _width() if grid else None
                return render.runs_text(runs, lags, output.form, grid_width=width, **has_tables)

    report = Report(tuple(rows), tuple(problems), notes)
    status = show("assign", report, output, lambda _: sheet, page)
    has_failed = any(outcome.error is not None for outcome in outcomes)
    return ExitStatus.PARTLY if has_failed and status is ExitStatus.DONE else status


def _width() -> int:
    """Tell how wide lines may be: as the terminal, or as most are where there is none."""
    return get_terminal_size().columns if is_terminal() else _PIPE_WIDTH


def _contents(path: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}", path=str(path)) from None
