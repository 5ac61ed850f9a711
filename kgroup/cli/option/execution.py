"""Changes: their plan is shown, and carried out where that is wanted; what was is saved first."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import wraps
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kgroup.cli.option.common import NEW_FILE, add_options
from kgroup.cli.output.context import show, warn
from kgroup.cli.output.form import Output
from kgroup.errors import ExitStatus, InputError, KgroupError, UsageError

if TYPE_CHECKING:
    from kgroup.model.offset import StoredOffset
    from kgroup.operation.offsets.plan import OffsetPlan
    from kgroup.operation.offsets.read import AnyStore
    from kgroup.render.sheet import Sheet

__all__ = ["FORM_OPTION", "PLANNED", "Execution", "execution_options", "save_offsets"]

PLANNED = "note: nothing was changed; --execute does what is planned"
_LEFT = "nothing was changed: that was not answered by yes"


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
            KgroupError: somebody was asked and did not say yes; likewise.
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
        plan_sheet(()).select(output.columns)  # a wrong one is told before anything is changed
        count, groups = sum(map(len, plan.changes.values())), len(plan.deleted or plan.changes)
        offsets = f"{count} offset{'' if count == 1 else 's'}"
        what = f"Delete {groups} group" if plan.deleted else f"Change {offsets} of {groups} group"
        self.ask(lambda: plan_sheet(plan.rows), f"{what}{'' if groups == 1 else 's'}?")
        if before := plan.backup:
            file = self._save(before)
            warn(
                f"note: what was committed before is in {file}: 'kgroup offsets import' undoes this"
            )
        return show(command, carry_out(store, plan), output, plan_sheet)

    def ask(self, sheet: "Callable[[], Sheet]", question: str) -> None:
        """Show a plan and ask whether to do it, on a terminal.

        Raises:
            KgroupError: the answer is something else than yes.
        """
        if self._is_sure or not sys.stdin.isatty():
            return
        from kgroup.render.cell import harmless
        from kgroup.render.sheet import sheet_text

        terminal = sys.stderr.isatty()
        for block in sheet_text(sheet().without_blank(), "table", headers=True, terminal=terminal):
            click.echo(block, nl=False, err=True)
        # Not by click, which writes a blank to standard output before it reads.
        click.echo(f"{harmless(question)} [y/N] ", nl=False, err=True)
        try:
            answer = sys.stdin.buffer.readline()
        except KeyboardInterrupt:
            click.echo(err=True)
            warn(_LEFT)
            raise
        if not answer.endswith(b"\n"):
            click.echo(err=True)
        if answer.strip().lower() not in (b"y", b"yes"):
            raise KgroupError(_LEFT)

    def _save(self, offsets: "Sequence[StoredOffset]") -> Path:
        """Write a new file.

        Raises:
            InputError: there is one of that name, or it cannot be written.
        """
        names = _default_names() if self._backup is None else iter((self._backup,))
        for path in names:
            try:
                path.open("xb").close()  # no other process takes the name
                break
            except FileExistsError:
                continue
            except OSError as error:
                raise InputError(f"{path}: {error.strerror}", path=str(path)) from None
        else:
            raise InputError(
                f"{self._backup}: expected a new file for what is committed now, found one"
            )
        try:
            save_offsets(path, offsets, "json")
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return path


def _default_names() -> Iterator[Path]:
    name = f"kgroup-offsets-{datetime.now(UTC):%Y%m%dT%H%M%S}"
    yield Path(f"{name}.json")
    yield from (Path(f"{name}-{number}.json") for number in count(2))


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
