"""Show the plan of a change, save the previous state, and execute the plan on request."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kgroup.cli.option.common import Decorator, OutputPath, options_into, parsed
from kgroup.cli.output.context import Output, show, warn, warn_notes, warn_of
from kgroup.errors import ExitStatus, InputError, KgroupError, UsageError
from kgroup.render.form import page_text

if TYPE_CHECKING:
    from kgroup.cli.option.store import StoreChoice
    from kgroup.model.offset import StoredOffset, StoreName
    from kgroup.operation.offsets.plan import OffsetPlan, PlannedOffset
    from kgroup.operation.report import Report
    from kgroup.render.sheet import Part
    from kgroup.source.base import GroupSource

_READ_ONLY = (
    "log directories, snapshots and files are read-only ('kgroup offsets export' writes files)"
)
_LEFT = "aborted: not confirmed; nothing was changed"
_AGAIN = "run the same command again to change the rest"
_NOT_AGAIN = "check the offsets before you reset again: a second reset starts from the current ones"


class Execution:
    """Whether to execute a plan, with confirmation and backup.

    Args:
        execute: `--execute`.
        yes: `--yes`.
        backup: file for the previous state; None: a file name with the current time.
        allow_skip: whether the plan may skip unread records without a separate confirmation
            (`--allow-skip`).

    Attributes:
        is_wanted: whether to execute the plan, not only show it.
    """

    def __init__(
        self, execute: bool, yes: bool, backup: Path | None = None, allow_skip: bool = True
    ) -> None:
        self.is_wanted = execute
        self._is_sure = yes
        self._backup = backup
        self._allows_skip = allow_skip

    def run(
        self,
        plan: OffsetPlan,
        store: GroupSource,
        chosen: StoreChoice,
        output: Output,
        cluster: GroupSource | None = None,
    ) -> ExitStatus:
        """Show the plan, or execute it and show the results.

        Args:
            plan: the change.
            store: store to change.
            chosen: options that select the store.
            output: form, columns and headers.
            cluster: cluster that coordinates the groups, if the store does not know their members.

        Raises:
            UsageError: the store is read-only, or the plan skips unread records and nobody can
                confirm it.
            InputError: the backup could not be written; nothing was changed.
            KgroupError: the user did not confirm; nothing was changed.
        """
        from kgroup.operation.offsets.plan import Result, carry_out, with_requests
        from kgroup.render.offsets import PLAN_COLUMNS, counted, plan_page, skip_warning
        from kgroup.render.sheet import choose
        from kgroup.source.base import GroupSource

        tell_profile()
        plan = with_requests(plan, store)
        if not self.is_wanted or plan.is_empty:
            status = _show(plan.report, output)
            if plan.deleted:
                warn(f"note: {counted(len(plan.deleted), 'group')} would be deleted as a whole")
            if not plan.is_empty:
                warn(planned(store.store_name))
            return status
        if not store.can(GroupSource.write_offsets):
            raise UsageError(
                f"--execute changes offsets of a cluster, ZooKeeper or a SQL table; {_READ_ONLY}"
            )
        choose(PLAN_COLUMNS, output.columns)  # report unknown columns before changes
        warn_notes(plan.notes)  # such as: the file is from another cluster
        skipped = None if self._allows_skip else skip_warning(plan.rows)
        if skipped is not None and not self._asks:
            raise UsageError(
                f"--execute would skip {skipped}; nothing was changed. To skip them, add "
                "--allow-skip; otherwise leave those partitions out (--topic NAME:P,...)"
            )
        self.ask(plan_page(plan.rows), lambda: _question(plan, store.store_name))
        if skipped is not None:
            _confirm(f"Skip {skipped}?")
        saved = file = None
        if before := plan.backup:
            file = self._save(before, store.store_name)
            undo = _undo(file, chosen, {offset.group_id for offset in before})
            saved = f"the previous offsets are in {file}; {undo}"
            warn(f"note: {saved}")
        store.renew()  # the timeout excludes planning and the user's answer
        done: dict[str, None] = {}
        groups = len(plan.deleted or plan.changes)
        try:
            with telling_of_interrupts(
                lambda: _interrupted(output.command, list(done), groups, saved)
            ):
                report = carry_out(
                    store,
                    replace(plan, notes=()),
                    lambda group_id: done.update({group_id: None}),
                    cluster,
                )
        except (InputError, UsageError):  # raised only before anything is sent
            if not done:
                _discard(file)
            raise
        if all(row.result in (Result.UNCHANGED, Result.REFUSED) for row in report.data):
            _discard(file)
        with telling_results(report):
            return _show(report, output)

    def ask(self, plan: Iterable[Part], question: Callable[[], str]) -> None:
        """Show a plan on a terminal, and ask for confirmation.

        Args:
            plan: page that shows the plan.
            question: returns the question.

        Raises:
            UsageError: standard error is not a terminal, so that the question would not be seen.
            KgroupError: the answer is not yes.
        """
        if not self._asks:
            return
        if not sys.stderr.isatty():
            raise UsageError(
                "--execute asks for confirmation on standard error, which is not a terminal; do "
                "not redirect it, or use --yes to skip the question"
            )
        for block in page_text(plan, terminal=True):
            click.echo(block, nl=False, err=True)
        _confirm(question())

    @property
    def _asks(self) -> bool:
        return not self._is_sure and sys.stdin.isatty()

    def _save(self, offsets: Sequence[StoredOffset], store: StoreName | None) -> Path:
        """Write the backup to a new file, and return its path.

        Raises:
            InputError: the file exists already, or cannot be written.
        """
        from kgroup.atomic_file import new_file
        from kgroup.render.offsets import file_lines

        names = _default_names() if self._backup is None else iter((self._backup,))
        for path in names:
            try:
                with new_file(path) as file:
                    file.writelines(file_lines(offsets, "json", store=store))
            except FileExistsError:
                continue
            except OSError as error:
                raise _unsaved(path, error.strerror or str(error)) from None
            except InputError as error:
                raise _unsaved(path, str(error).removeprefix(f"{path}: ")) from None
            return path
        raise InputError(
            f"{self._backup}: expected a new file for the backup, found an existing file; nothing "
            "was changed. Name another file with --backup",
            path=str(self._backup),
        )


def _confirm(question: str) -> None:
    """Ask a question on a terminal; ignore input typed before the question.

    Raises:
        KgroupError: the answer is not yes.
    """
    import termios

    from kgroup.render.cell import harmless

    with suppress(termios.error):
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
    # click's prompt would write a space to standard output.
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


def _discard(file: Path | None) -> None:
    """Remove the backup if nothing was changed."""
    if file is not None:
        file.unlink(missing_ok=True)
        warn(f"note: nothing was changed; the backup {file} was removed")


def _unsaved(path: Path, reason: str) -> InputError:
    """Return the error that a backup cannot be written."""
    return InputError(f"{path}: {reason}; nothing was changed", path=str(path))


def tell_profile() -> None:
    """Print the profile in use, before a plan."""
    from kgroup.operation.printed_command import profile_in_use

    if (profile := profile_in_use()) is not None:
        warn(f"note: profile {profile}")


def planned(store: StoreName | None) -> str:
    """Return a note that nothing was changed, and how to do it; None stands for read-only."""
    if store is not None:
        return f"note: nothing was changed in {store}; --execute carries out the plan"
    return f"note: nothing was changed, and --execute cannot change anything here: {_READ_ONLY}"


def _show(report: Report[PlannedOffset], output: Output) -> ExitStatus:
    """Show a plan or its results, with totals; return the exit status."""
    from kgroup.render.offsets import plan_page, plan_totals

    status = show(report, output, plan_page)
    if report.data:
        warn(f"note: {plan_totals(report.data)}")
    return status


def _question(plan: OffsetPlan, store: StoreName | None) -> str:
    from kgroup.render.offsets import counted, record_totals

    groups = counted(len(plan.deleted or plan.changes), "group")
    offsets = counted(sum(map(len, plan.changes.values())), "offset")
    what = f"Delete {groups}" if plan.deleted else f"Change {offsets} of {groups}"
    records = record_totals(plan.rows)
    return f"{what} in {store}{records and f' ({records})'}?"


def _undo(file: Path, store: StoreChoice, group_ids: Collection[str]) -> str:
    """Return the command that restores the backup, and which secrets it requires."""
    from kgroup.operation.printed_command import kgroup_command

    words, secrets = store.words()
    name = f"./{file}" if str(file).startswith("-") else str(file)
    every = ["--all"] if len(group_ids) > 1 else []
    command = kgroup_command("offsets import", [name], [*words, *every, "--execute"])
    beside = f" (with {' and '.join(secrets)})" if secrets else ""
    return f"to undo this{beside}: {command}"


@contextmanager
def telling_of_interrupts(text: Callable[[], str]) -> Iterator[None]:
    """Print the progress of a change if Ctrl-C or SIGTERM interrupts it."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        warn(text())
        raise


def _interrupted(command: str, done: Sequence[str], count: int, saved: str | None) -> str:
    from kgroup.operation.report import first_names
    from kgroup.render.offsets import counted

    text = "interrupted: no group is known to be changed"
    if done:
        text = f"interrupted: {len(done)} of {counted(count, 'group')} "
        text += f"{'was' if len(done) == 1 else 'were'} changed ({first_names(done)})"
    if len(done) < count:
        text += f", {'others' if done else 'one' if count == 1 else 'some'} may be"
    text += f"; {_NOT_AGAIN if command == 'offsets reset' else _AGAIN}"
    return text if saved is None else f"{text}; {saved}"


@contextmanager
def telling_results(report: Report[Any]) -> Iterator[None]:
    """Print the results of a change if its report cannot be written."""
    try:
        yield
    except OSError:
        results = Counter(row.result for row in report.data)
        counts = ", ".join(f"{number} {result}" for result, number in results.items())
        warn(f"note: the report could not be written; results of the change: {counts}")
        warn_of(report.errors)
        raise


def _default_names() -> Iterator[Path]:
    name = f"kgroup-offsets-{datetime.now(UTC):%Y%m%dT%H%M%S}"
    yield Path(f"{name}.json")
    yield from (Path(f"{name}-{number}.json") for number in count(2))


def execution_options(*, saves: bool = True, skips: bool = False) -> Decorator:
    """Add `--execute`, `--dry-run` and `--yes`; the command takes ``execution: Execution``.

    Args:
        saves: also add `--backup`: the previous state can be saved.
        skips: also add `--allow-skip`: skipped records are confirmed separately.
    """
    more = [*([_SKIP_OPTION] if skips else []), *([_BACKUP_OPTION] if saves else [])]
    return options_into("execution", Execution, *_OPTIONS, *more)


def _check_file(path: Path) -> Path:
    if path == Path("-"):
        raise ValueError("expected a new file, found -: standard output has the report")
    return path


dry_run_option = partial(
    click.option, "--dry-run", is_flag=True, help="Change nothing. This is the default."
)
"""Makes `--dry-run`."""


def _execute(execute: bool, dry_run: bool) -> bool:
    if execute and dry_run:
        raise click.UsageError("--dry-run shows the plan, and --execute carries it out: choose one")
    return execute


execute_option: Decorator = options_into(
    "execute",
    _execute,
    click.option("--execute", is_flag=True, help="Carry out the plan; otherwise only show it."),
    dry_run_option(),
)
"""`--execute` and its opposite, `--dry-run`; the command takes ``execute: bool``."""

_OPTIONS = (
    execute_option,
    click.option(
        "--yes",
        is_flag=True,
        help="Do not ask for confirmation. Without a terminal, nothing is asked anyway.",
    ),
)
_SKIP_OPTION = click.option(
    "--allow-skip",
    is_flag=True,
    help="Skip unread records without a separate confirmation; required with --yes and in scripts.",
)
_BACKUP_OPTION = click.option(
    "--backup",
    metavar="FILE",
    type=OutputPath(),
    callback=parsed(_check_file),
    help="Save the current offsets to this new file (JSON).  [default: kgroup-offsets-TIME.json]",
)
