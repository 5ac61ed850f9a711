"""`kgroup members` and its commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import click

from kgroup.cli.command_group import CommandGroup
from kgroup.cli.option.common import ID, examples, output_options
from kgroup.cli.option.execution import (
    Execution,
    execution_options,
    planned,
    tell_profile,
    telling_of_interrupts,
    telling_results,
)
from kgroup.cli.option.source import Source, source_options
from kgroup.cli.option.suggestion import suggest_groups, suggest_members
from kgroup.cli.output.context import Output, json_errors, show, warn, warn_notes
from kgroup.errors import ExitStatus, UsageError, named_group

command = CommandGroup(
    "kgroup members",
    """Remove members that are gone from a group.

    'kgroup describe' shows the members. Without --execute, only the plan is shown.
    """,
)


_INTERRUPTED = (
    "interrupted: it is unknown whether members were removed; check with 'kgroup describe'"
)


@command.command(
    "remove",
    epilog=examples(
        "kgroup members remove --sample order-service --all",
        "kgroup members remove -b kafka-1:9092 billing --instance billing-pod-3",
        "kgroup members remove -b kafka-1:9092 billing --member 10.0.4.17",
        "kgroup members remove -b kafka-1:9092 billing --all --reason 'moved to eu-1' --execute",
    ),
)
@click.argument("group", metavar="GROUP", type=ID, shell_complete=suggest_groups)
@click.option(
    "--member",
    "members",
    metavar="NAME",
    multiple=True,
    type=ID,
    shell_complete=suggest_members,
    help="Remove this member, named by its id or the start of it (longer than the client id), "
    "instance id, client id or host. Repeatable.",
)
@click.option(
    "--instance",
    "instance_ids",
    metavar="ID",
    multiple=True,
    type=ID,
    help="Remove the static member with this group.instance.id. Repeatable.",
)
@click.option("--all", "every", is_flag=True, help="Remove all members.")
@click.option("--reason", metavar="TEXT", help="Reason to write to the broker's log.")
@source_options(required=True)
@execution_options(saves=False)
@output_options("offsets.REMOVAL_COLUMNS")
def remove_command(
    group: str,
    members: Sequence[str],
    instance_ids: Sequence[str],
    every: bool,
    reason: str | None,
    source: Source,
    execution: Execution,
    output: Output,
) -> ExitStatus:
    """Remove members from a group.

    Use it for members that are gone but whose session has not expired, such as static members with
    a long session timeout. A member that is still running rejoins at once. Without --execute, only
    the plan is shown.
    """
    if every == bool(members or instance_ids):
        raise click.UsageError(
            "no members selected: use --member NAME, --instance ID, or --all alone"
        )
    from kgroup.operation.offsets.plan import Result
    from kgroup.operation.remove_members import carry_out_removal, plan_removal
    from kgroup.render.offsets import REMOVAL_COLUMNS
    from kgroup.render.sheet import Sheet
    from kgroup.source.base import GroupSource

    with json_errors(output), source.open() as opened:
        plan = plan_removal(opened, group, members, instance_ids, every=every)
        tell_profile()
        is_empty = not any(row.result is Result.PLANNED for row in plan.data)
        if execution.is_wanted and not is_empty:
            if not opened.can(GroupSource.remove_members):
                raise UsageError("--execute needs a live cluster (--bootstrap-server)")
            sheet = Sheet.of(REMOVAL_COLUMNS, plan.data)
            sheet.select(output.columns)  # report unknown columns before removing members
            warn_notes(plan.notes)  # such as: which member has this client id
            plan = replace(plan, notes=())
            count = len(plan.data)
            execution.ask(
                [sheet.without_blank()],
                lambda: (
                    f"Remove {count} member{'' if count == 1 else 's'} of {named_group(group)} in "
                    f"{opened.store_name}?"
                ),
            )
            opened.renew()  # the timeout excludes the user's answer
            with telling_of_interrupts(lambda: _INTERRUPTED):
                report = carry_out_removal(opened, plan, reason)
            with telling_results(report):
                return show(report, output)
        status = show(plan, output)
        if not is_empty:  # before the cluster is closed, which forgets its id
            warn(planned(opened.store_name if opened.can(GroupSource.remove_members) else None))
        return status
