"""Changes: their plan is shown, and carried out where that is wanted; what was is saved first."""

import os
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kgroup.cli.option.common import NEW_FILE, add_options
from kgroup.cli.output.context import show, warn
from kgroup.cli.output.form import Output
from kgroup.errors import ExitStatus, InputError, UsageError

if TYPE_CHECKING:
    from kgroup.model.offset import StoredOffset
    from kgroup.operation.offsets.plan import OffsetPlan
    from kgroup.operation.offsets.read import AnyStore
    from kgroup.render.sheet import Sheet

__all__ = ["FORM_OPTION", "PLANNED", "Execution", "execution_options", "save_offsets"]

PLANNED = "note: nothing was changed; --execute does what is planned"


class Execution:
    """Whether a plan is carried out, and what is asked and saved before.

    Args:
        wanted: --execute.
        is_sure: --yes.
        backup: file for what was there; None: one that is named by the time.

    Attributes:
        is_wanted: whether to do more than to show the plan.
    """

    def __init__(self, wanted: bool, is_sure: bool, backup: Path | None) -> None:
        self.is_wanted = wanted
        self._is_sure = is_sure
        self._backup = backup

    def run(
        self, command: str, plan: "OffsetPlan", store: "AnyStore", output: Output
    ) -> ExitStatus:
        """Show the plan, or carry it out and show what became of it.

        Raises:
            UsageError: the store cannot be changed.
            InputError: what was there could not be saved; nothing was changed.
            BrokerError: nobody answers; likewise.
        """
        from kgroup.operation.offsets.plan import carry_out
        from kgroup.render.group.offsets import plan_sheet
        from kgroup.source.base import WritableOffsetStore

        if not self.is_wanted or plan.is_empty:
            status = show(command, plan.report, output, plan_sheet)
            if not plan.is_empty:
                warn(PLANNED)
            return status
        if not isinstance(store, WritableOffsetStore):
            raise UsageError(
                "--execute changes offsets of a cluster, ZooKeeper or a SQL table; files, log "
                "directories and snapshots are only read"
            )
        count, groups = sum(map(len, plan.changes.values())), len(plan.deleted or plan.changes)
        offsets = f"{count} offset{'' if count == 1 else 's'}"
        what = f"Delete {groups} group" if plan.deleted else f"Change {offsets} of {groups} group"
        self.ask(lambda: plan_sheet(plan.rows), f"{what}{'' if groups == 1 else 's'}?")
        backup = self._save(plan)
        report = carry_out(store, plan)
        status = show(command, report, output, plan_sheet)
        warn(f"note: what was committed before is in {backup}: 'kgroup offsets import' undoes this")
        return status

    def ask(self, sheet: "Callable[[], Sheet]", question: str) -> None:
        """Show a plan and ask whether to do it, on a terminal; who says no ends the command."""
        if self._is_sure or not sys.stdin.isatty():
            return
        from kgroup.render.sheet import sheet_text

        terminal = sys.stderr.isatty()
        for block in sheet_text(sheet().without_blank(), "table", headers=True, terminal=terminal):
            click.echo(block, nl=False, err=True)
        click.confirm(question, abort=True, err=True)

    def _save(self, plan: "OffsetPlan") -> Path:
        path = self._backup
        if path is None:
            path = Path(f"kgroup-offsets-{datetime.now(UTC):%Y%m%dT%H%M%S}.json")
        if path.exists():
            raise InputError(f"{path}: expected a new file for what is committed now, found one")
        save_offsets(path, plan.backup, "json")
        return path


def execution_options(*, saves: bool = True) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add `--execute` and `--yes`; the command takes ``execution: Execution``.

    Args:
        saves: also `--backup`: what is changed can be saved.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def with_execution(
            *, execute: bool, yes: bool, backup: Path | None = None, **rest: Any
        ) -> Any:
            return command(execution=Execution(execute, yes, backup), **rest)

        return add_options(with_execution, *_OPTIONS, *([_BACKUP_OPTION] if saves else []))

    return decorate


_OPTIONS = (
    click.option("--execute", is_flag=True, help="Do it; otherwise the plan is shown."),
    click.option("--yes", is_flag=True, help="Do not ask on a terminal."),
)
_BACKUP_OPTION = click.option(
    "--backup",
    metavar="FILE",
    type=NEW_FILE,
    help="New file for what is committed now (JSON).  [default: kgroup-offsets-TIME.json]",
)

FORM_OPTION = click.option(
    "--format",
    "form",
    type=click.Choice(["kafka-csv", "json", "jsonl"]),
    help="Form of the file.  [default: what its name ends in]",
)


def save_offsets(path: Path, rows: "Sequence[StoredOffset]", form: str) -> None:
    """Write offsets to a file that is there when it is whole.

    Raises:
        UsageError: the file is none, or the form cannot hold a name.
        InputError: it cannot be written.
    """
    from kgroup.atomic_file import atomic_file
    from kgroup.render.group.offsets import file_lines

    with atomic_file(path) as unfinished, unfinished.open("wb") as file:
        file.writelines(file_lines(rows, form))
        file.flush()
        os.fsync(file.fileno())
