"""The `kgroup` command; converts errors to exit statuses.

Only click is imported here. Each command is in its own module, which is imported to run it, so that
``kgroup --help`` and completion are fast.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from signal import SIG_DFL, SIGHUP, SIGINT, SIGTERM, default_int_handler, getsignal, signal
from time import monotonic
from types import FrameType
from typing import NoReturn

import click

from kgroup import __version__
from kgroup.atomic_file import INPUTS
from kgroup.cli.command_group import CommandTable, LazyGroup
from kgroup.cli.output.context import discard, flush, warn, write
from kgroup.cli.usage import usage_message
from kgroup.errors import ExitStatus, KgroupError
from kgroup.model.instant import show_local_time
from kgroup.pandas_import import leave_out_pandas
from kgroup.redaction import forget_secrets, keep_environment, redact

COMMANDS: CommandTable = {
    "list": ("command.list_groups", "List groups with their state, members, lag and last commit."),
    "top": ("command.top", "Watch all groups live, by lag, with growth and rebalances."),
    "describe": ("command.describe", "Show who is behind in a group: members, hosts, partitions."),
    "coordinator": ("command.coordinator", "Find a group's coordinator, and whether it answers."),
    "assign": ("command.assign", "Show what would move if members join, leave or change."),
    "check": ("command.check", "Find problems, and what to do; also lag for Prometheus."),
    "simulate": (
        "command.simulate",
        "Simulate crashes and restarts, and how long partitions stop.",
    ),
    "plan": ("command.plan", "Plan migrations off eager strategies and old protocols."),
    "offsets": (
        "command.offsets",
        "Show, reset, export (back up), import (undo), copy, diff and delete offsets.",
    ),
    "members": ("command.members", "Remove members that are gone from a group."),
    "snapshot": ("command.snapshot", "Save groups and offsets to a file, to inspect them offline."),
    "decode-offsets": (
        "command.decode_offsets",
        "Decode records of __consumer_offsets, from files or a cluster.",
    ),
    "zk": ("command.zk", "Inspect the nodes and fetchers of ZooKeeper consumers."),
    "history": (
        "command.history",
        "Show what happened, and why: timeline, rebalances, owner, commits, lag, as-of.",
    ),
    "profile": ("command.profile", "List and edit profiles: named clusters with their settings."),
    "doctor": ("command.doctor", "Check the installation, and the connection to a cluster."),
    "completion": ("command.completion", "Print or install the completion script of a shell."),
}

ALIASES = {"why": "check"}
"""Names of commands by alias."""

INTERRUPTED = 130
"""Exit status that shells report for a process terminated by SIGINT (128 + 2)."""
PIPE_CLOSED = 141
"""Exit status that shells report for a process terminated by SIGPIPE (128 + 13)."""
GARBAGE_THRESHOLD = 1_000_000
"""Allocations between garbage collections; Python's default of 700 takes a fifth of the time."""
ONE_PRESS_S = 1.0
"""Time in seconds in which further Ctrl-C are ignored."""


def _show_versions(ctx: click.Context, param: click.Parameter, is_wanted: bool) -> None:
    if is_wanted and not ctx.resilient_parsing:
        from kgroup.operation.doctor import versions

        write(f"{name} {version}\n" for name, version in (("kgroup", __version__), *versions()))
        ctx.exit()


kgroup = click.option(
    "-V",
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_versions,
    help="Show the versions of kgroup and its dependencies, and exit.",
)(
    LazyGroup(
        "kgroup",
        """Inspect and administer Kafka consumer groups.

        Groups are read from a cluster (--bootstrap-server), a broker's log directory (--log-dir),
        ZooKeeper (--zookeeper), a snapshot file (--snapshot) or the sample data that comes with
        kgroup (--sample). kgroup never joins a group, and changes groups or offsets only with
        --execute.

        \b
        Exit status: 0 success, 1 failure, 2 usage error, 3 no such group, 4 partial
        success, 5 found a problem or difference (check, plan, offsets diff, doctor).
        """,
        COMMANDS,
        ALIASES,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
)


def run(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line, and exit with its status."""
    # Make new files readable for the user only: they have groups, hosts and metadata.
    os.umask(0o077)
    # Keep signals ignored that the caller ignores, as shells do for background processes.
    for number in (SIGTERM, SIGHUP):
        if getsignal(number) is SIG_DFL:
            signal(number, _terminate)
    if getsignal(SIGINT) is default_int_handler:
        signal(SIGINT, _Interrupt())
    # Nearly all objects live until the end of the command: collect garbage less often.
    gc.set_threshold(GARBAGE_THRESHOLD)
    # OpenBLAS, which numpy loads and kgroup does not use, starts threads that busy-wait.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Without TERM, assume no terminal features, also in the library that renders tables.
    os.environ["TERM"] = os.environ.get("TERM") or "dumb"
    leave_out_pandas()
    _open_standard_streams()
    try:
        status = status_of(sys.argv[1:] if args is None else args)
    except SystemExit as error:  # raised by `_terminate`
        status = int(error.code or 0)
    except Exception:  # with KGROUP_DEBUG: print the traceback without secrets
        from traceback import format_exc

        sys.stderr.write(redact(format_exc()))
        status = ExitStatus.FAILED
    _end(status)


def _end(status: int) -> NoReturn:
    """Flush the standard streams, and exit immediately.

    All resources that need it have been closed or removed. Python's own shutdown would wait for, or
    crash, running threads: abandoned name lookups, compiled code after an interrupt, threads of
    libraries. It also frees every object: 0.02 s of 0.11 s CPU for `--help`, 0.07 s of 0.48 s for
    `list --sample` (20 starts each).
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the reader has gone; errors were reported before
            stream.flush()
    os._exit(status)


def _open_standard_streams() -> None:
    """Open the null device for closed standard streams, so that no file gets their descriptors.

    Standard output is opened for reading only, so that writing to it still fails.
    """
    read, write = os.O_RDONLY, os.O_WRONLY
    for name, mode, flags in (("stdin", "r", read), ("stdout", "w", read), ("stderr", "w", write)):
        if getattr(sys, name) is None:
            stream = open(os.open(os.devnull, flags), mode)  # noqa: SIM115, until the process ends
            setattr(sys, name, stream)


def status_of(args: Sequence[str]) -> int:
    """Run the command line, and return its exit status."""
    forget_secrets()
    keep_environment(os.environ)
    INPUTS.clear()
    show_local_time(is_local=True)  # unless output options choose UTC
    try:
        status = _invoke(args)
        flush()
    except (click.Abort, KeyboardInterrupt):
        status = INTERRUPTED
    except click.UsageError as error:
        warn(f"error: {usage_message(error)}")
        if error.ctx is not None:
            warn(f"try '{error.ctx.command_path} --help'")
        status = ExitStatus.USAGE
    except click.ClickException as error:
        warn(f"error: {error.format_message()}")
        status = ExitStatus.FAILED
    except KgroupError as error:
        warn(f"error: {error}")
        status = error.exit_status
    except BrokenPipeError:
        status = PIPE_CLOSED
    except OSError as error:
        warn(f"error: {_describe_os_error(error)}")
        status = ExitStatus.FAILED
    except UnicodeEncodeError as error:  # an argument to be sent to a broker
        warn(f"error: expected UTF-8, found {error.object!r}")
        status = ExitStatus.USAGE
    except MemoryError:
        warn("error: not enough memory; select less data with filters")
        status = ExitStatus.FAILED
    except Exception as error:
        if os.environ.get("KGROUP_DEBUG"):
            raise
        warn(
            f"error: this is a bug in kgroup {__version__}: {type(error).__name__}: {error}; run "
            "the command again with KGROUP_DEBUG=1, and report the traceback"
        )
        status = ExitStatus.FAILED
    return _close_stdout(status)


def _invoke(args: Sequence[str]) -> int:
    """Parse and run; click's own `main` handles broken pipes and interrupts differently."""
    try:
        with kgroup.make_context("kgroup", list(args), obj=tuple(args)) as ctx:
            return int(kgroup.invoke(ctx) or ExitStatus.DONE)
    except click.exceptions.Exit as exit_:
        return exit_.exit_code


def _close_stdout(status: int) -> int:
    """Prevent the interpreter from reporting errors of standard output on shutdown."""
    try:
        sys.stdout.flush()
    except OSError:
        discard()
    return status


def _describe_os_error(error: OSError) -> str:
    from traceback import walk_tb

    name = error.filename
    if name is None and any(
        f.f_code is click.echo.__code__ for f, _ in walk_tb(error.__traceback__)
    ):
        name = "standard output"  # click writes the help
    elif name is None and isinstance(error, FileNotFoundError):
        name = "the current folder"  # it was deleted; other errors have a file name
    file = f"{name}: " if name is not None else ""
    return f"{file}{error.strerror or error}"


class _Interrupt:
    """Handler of Ctrl-C; ignores repeated signals, which would interrupt the cleanup."""

    def __init__(self) -> None:
        self._last_s: float | None = None

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        now_s = monotonic()
        if self._last_s is None or now_s - self._last_s > ONE_PRESS_S:
            self._last_s = now_s
            raise KeyboardInterrupt


def _terminate(signum: int, frame: FrameType | None) -> NoReturn:
    """Raise SystemExit to remove temporary files, with the exit status that shells report."""
    sys.exit(128 + signum)
