"""`kgroup offsets import`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kgroup.cli.option.common import ID, PATH, check_all, examples, output_options, regex_option
from kgroup.cli.option.execution import Execution, execution_options
from kgroup.cli.option.store import Store, check_new_name, fit_options, store_options, topic_option
from kgroup.cli.option.suggestion import groups_argument
from kgroup.cli.output.context import documented
from kgroup.cli.output.form import Output
from kgroup.errors import ExitStatus
from kgroup.model.pattern import Pattern

if TYPE_CHECKING:
    from kgroup.operation.offsets.plan import Topics


@click.command(
    "import",
    epilog=examples(
        "kgroup offsets import -b kafka-1:9092 offsets.json",
        "kgroup offsets import -b kafka-1:9092 plan.csv billing --execute",
        "kgroup offsets import --zookeeper zk-1:2181/kafka offsets.json billing --execute --yes",
    ),
)
@click.argument("path", metavar="FILE", type=PATH)
@groups_argument
@click.option("--all", "every", is_flag=True, help="Every group of the file.")
@regex_option
@topic_option
@click.option(
    "--as", "new_id", metavar="GROUP", type=ID, help="Commit them for a group of another name."
)
@click.option(
    "--without-epochs",
    is_flag=True,
    help="Leave out epochs of leaders: for a file that comes from another cluster.",
)
@fit_options
@store_options
@execution_options()
@output_options
def command(
    path: Path,
    groups: Sequence[str],
    every: bool,
    regex: Pattern | None,
    topics: Topics,
    new_id: str | None,
    without_epochs: bool,
    clamp: bool,
    store: Store,
    execution: Execution,
    output: Output,
) -> ExitStatus:
    """Commit what a file has, or undo a change by its backup.

    The file is JSON, JSON lines or CSV as 'kgroup offsets export' writes them, or a plan of
    kafka-consumer-groups. One without groups (topic,partition,offset) wants the name of one. - is
    standard input. A file of one group needs no name of it, one of several wants names, or --all.
    Offsets that the partitions do not have are refused (or choose --clamp), unless the file was
    saved from this very store. Groups with members are left alone. Without --execute only the plan
    is shown.
    """
    check_all(groups, regex, every=every)
    check_new_name(
        new_id, groups, regex, "name the one of the file that is meant (import FILE GROUP --as NEW)"
    )
    from kgroup.operation.offsets.transfer import OutOfRange, plan_transfer
    from kgroup.source.offset_file import OffsetFile

    name = "offsets import"
    with (
        documented(name, output),
        store.open(tuple(groups)) as target,
        store.open_cluster(target) as cluster,
    ):
        plan = plan_transfer(
            OffsetFile(path),
            target,
            cluster,
            groups,
            regex,
            new_id=new_id,
            topics=topics,
            leader_epochs=not without_epochs,
            fit=OutOfRange.CLAMP if clamp else OutOfRange.REFUSE,
        )
        found = {row.group_id for row in plan.rows}
        if len(found) > 1 and not (groups or every or regex is not None):
            raise click.UsageError(
                f"the file has {len(found)} groups: name those that are meant, or choose --all"
            )
        return execution.run(name, plan, target, store, output)
