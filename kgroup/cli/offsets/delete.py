"""`kgroup offsets delete`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from kgroup.cli.option.common import examples, output_options, regex_option
from kgroup.cli.option.execution import Execution, execution_options
from kgroup.cli.option.store import Store, store_options, topic_option
from kgroup.cli.option.suggestion import groups_argument
from kgroup.cli.output.context import documented
from kgroup.cli.output.form import Output
from kgroup.errors import ExitStatus
from kgroup.model.pattern import Pattern

if TYPE_CHECKING:
    from kgroup.operation.offsets.plan import Topics


@click.command(
    "delete",
    epilog=examples(
        "kgroup offsets delete --sample invoice-batch --topic payments",
        "kgroup offsets delete -b kafka-1:9092 billing --execute",
    ),
)
@groups_argument
@regex_option
@topic_option
@click.option(
    "--delete-hidden",
    is_flag=True,
    help="Also delete groups that have, or may have, committed offsets for topics that you may not "
    "describe: the backup lacks them.",
)
@store_options
@execution_options()
@output_options
def command(
    groups: Sequence[str],
    regex: Pattern | None,
    topics: Topics,
    delete_hidden: bool,
    store: Store,
    execution: Execution,
    output: Output,
) -> ExitStatus:
    """Delete groups, or what they have committed for topics.

    Without --topic groups go as a whole; --regex takes those that have committed something. Groups
    with members are left alone, but for topics that none of them subscribes to, if they are
    consumers; so are share groups, which cannot be saved, and groups with offsets that you may not
    see. Without --execute only the plan is shown.
    """
    if not groups and regex is None:
        raise click.UsageError("which groups? Name them, or choose --regex RE")
    from kgroup.operation.offsets.deletion import plan_deletion

    name = "offsets delete"
    with documented(name, output), store.open(tuple(groups)) as target:
        plan = plan_deletion(target, groups, regex, topics=topics, hidden=delete_hidden)
        return execution.run(name, plan, target, store, output)
