"""The source of groups: one choice among options, the same for all commands.

`--sample` stands for two sources: a broker's log directory, and ZooKeeper of the same company in
earlier times. `Source` selects the one that a command needs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kgroup.cli.option.common import (
    LOG_DIR_OPTION,
    PATH,
    SAMPLE_OPTION,
    Decorator,
    log_dirs,
    options_into,
    source_option,
)
from kgroup.cli.option.connection import DEFAULT_TIMEOUT_S, Connection, connection_options

if TYPE_CHECKING:
    from kgroup.model.snapshot import Origin
    from kgroup.source.base import GroupSource
    from kgroup.source.zookeeper.address import ZookeeperAddress


class FileFormat(NamedTuple):
    """A format of files that groups are read from, and the option that names such a file.

    Attributes:
        name: name of the option without dashes, and prefix of store names.
        help: help text of the option.
        reader: ``module:name`` of the function that reads a file and returns its `GroupSource`,
            which has the time of the data as `data_time_ms`.
    """

    name: str
    help: str
    reader: str

    @property
    def option(self) -> str:
        """The option."""
        return f"--{self.name}"

    @property
    def parameter(self) -> str:
        """The name of the option's parameter."""
        return self.name.replace("-", "_")


_SNAPSHOT = FileFormat(
    "snapshot",
    "Read a file that 'kgroup snapshot' wrote; - for standard input.",
    "kgroup.source.snapshot.source:read_source",
)
FILE_FORMATS: Mapping[str, FileFormat] = {_SNAPSHOT.name: _SNAPSHOT}
"""By name. Options, completion, store names and error messages follow from this table."""


class SourceFile(NamedTuple):
    """A file that groups are read from."""

    format: FileFormat
    path: Path

    def read(self) -> GroupSource:
        """Read the file.

        Raises:
            InputError: the file does not have this format, or is damaged.
        """
        source: GroupSource = resolve_name(self.format.reader)(self.path)
        return source


@dataclass(frozen=True, slots=True)
class Source:
    """The selected source: log directories, a file, ZooKeeper, a cluster, or none if optional.

    Attributes:
        paths: log directories, empty without.
        connection: connection to a cluster, None without.
        file: file in one of `FILE_FORMATS`, None without.
        zookeeper: address of ZooKeeper, None without; `connection` has the connection settings.
        is_sample: whether it is the recorded data in the package, or a part of it.
        timeout_s: `--timeout`, in seconds; also for a database if there is no connection.
    """

    paths: tuple[Path, ...] = ()
    connection: Connection | None = None
    file: SourceFile | None = None
    zookeeper: ZookeeperAddress | None = None
    is_sample: bool = False
    timeout_s: float = field(default=DEFAULT_TIMEOUT_S, compare=False)

    @staticmethod
    def sample() -> Source:
        """Return the log directory of the recorded data in the package, which has most groups."""
        return Source(paths=log_dirs((), sample=True), is_sample=True)

    @property
    def of_zookeeper(self) -> Source:
        """The source of groups of ZooKeeper consumers: this one, or ZooKeeper of the sample."""
        if not self.is_sample:
            return self
        from kgroup.sample import sample_zookeeper

        return Source(file=SourceFile(_SNAPSHOT, sample_zookeeper()), is_sample=True)

    @property
    def is_named(self) -> bool:
        """Whether an option selects the source; otherwise, it is from the environment."""
        chosen_by = self.connection is not None and self.connection.chosen_by
        return bool(self.paths or self.file or self.zookeeper or chosen_by)

    @property
    def has_records(self) -> bool:
        """Whether the source has records of `__consumer_offsets`, which tell the past of groups."""
        return bool(self.paths) or (self.connection is not None and self.zookeeper is None)

    @property
    def origin(self) -> Origin:
        """Origin of a snapshot of this source."""
        from kgroup.model.snapshot import Origin

        if self.zookeeper is not None:
            return Origin("zookeeper")
        if self.connection is not None:
            return Origin("cluster")
        if self.is_sample:
            return Origin("sample")
        return Origin("log-dir", tuple(str(path.absolute()) for path in self.paths))

    def that_has(self, group_ids: Sequence[str]) -> Source:
        """Return the source that has the named groups, or groups with similar names."""
        return self.divided(group_ids)[0][0]

    def divided(
        self, group_ids: Sequence[str], *, every: bool = False
    ) -> Sequence[tuple[Source, Sequence[str]]]:
        """Return the sources that have the named groups, or all groups, each with its groups.

        There are two sources, this one first, if some groups are only in ZooKeeper of the sample.
        """
        zookeeper = self.of_zookeeper
        if zookeeper == self or not group_ids:
            both = [(self, group_ids), (zookeeper, group_ids)]
            return both if every and zookeeper != self else both[:1]
        in_zookeeper = frozenset(zookeeper.group_ids())
        old = [group_id for group_id in group_ids if group_id in in_zookeeper]
        own = [group_id for group_id in group_ids if group_id not in in_zookeeper]
        if all(self._means_one_of(in_zookeeper, group_id) for group_id in own):
            return [(zookeeper, group_ids)]
        return [(self, own), (zookeeper, old)] if old else [(self, own)]

    def _means_one_of(self, names: Collection[str], name: str) -> bool:
        """Return whether the most similar group is among `names`, and not in this source."""
        from difflib import get_close_matches

        if not get_close_matches(name, names):
            return False
        own = self.group_ids()
        return get_close_matches(name, [*own, *names], 1)[0] not in own

    def group_ids(self) -> Collection[str]:
        """Return the ids of all groups."""
        from kgroup.source.base import Question

        question = Question(state=False, members=False, offsets=False, log_budget=0)
        with self.open(in_rounds=True) as source:
            return source.read(question=question).image.groups

    @contextmanager
    def open(self, *, of_silence: bool = False, in_rounds: bool = False) -> Iterator[GroupSource]:
        """Yield the source while the context is open.

        Args:
            of_silence: see `Connection.open`.
            in_rounds: do not show progress, because the source is read repeatedly.
        """
        from kgroup.operation.printed_command import connected_by

        if self.file is not None:
            with connected_by(source=self.words):
                yield self.file.read()
        elif self.connection is None:
            from kgroup.cli.output.progress import ProgressLine
            from kgroup.source.log.source import LogDir

            progress = ProgressLine(writes_rows=False, is_wanted=not in_rounds)
            with connected_by(source=self.words):
                yield LogDir(
                    self.paths, on_compile=progress.on_compile, on_progress=progress.show_bytes
                )
            progress.finish()
        elif self.zookeeper is not None:
            with self.connection.open_zookeeper(self.zookeeper, of_silence=of_silence) as zookeeper:
                yield zookeeper
        else:
            with self.connection.open(of_silence=of_silence) as cluster:
                yield cluster

    @property
    def label(self) -> str:
        """The options that select the source, without secrets, for the head of a screen."""
        from kgroup.redaction import redact

        if self.connection is None:
            return " ".join(self.words)
        words = ["--zookeeper", str(self.zookeeper)] if self.zookeeper is not None else []
        return redact(" ".join([*words, *self.connection.words()[0]]))

    @property
    def words(self) -> tuple[str, ...]:
        """The options that select this source, if it is a file or folder."""
        if self.is_sample:
            return ("--sample",)
        if self.file is not None:
            return (self.file.format.option, str(self.file.path))
        return tuple(word for path in self.paths for word in ("--log-dir", str(path)))

    def instant_ms(self, source: GroupSource) -> int:
        """Return the data's time in epoch milliseconds: now, or that of a file or the sample."""
        from kgroup.sample import LOG_DIR_TIME_MS

        time_ms = source.data_time_ms
        if time_ms is None and self.is_sample:
            return LOG_DIR_TIME_MS
        return time.time_ns() // 1_000_000 if time_ms is None else time_ms


def source_options(
    *, required: bool, formats: bool = True, zookeeper: bool = True, files: bool = True
) -> Decorator:
    """Add the options that select a source; the command takes ``source: Source``.

    If no option selects a source, it is the cluster that the environment names.

    Args:
        required: whether a source is required.
        formats: whether to allow files in one of `FILE_FORMATS`.
        zookeeper: whether to allow ZooKeeper.
        files: whether to allow log directories, these files and the sample.
    """
    options = [connection_options]
    options += [LOG_DIR_OPTION, SAMPLE_OPTION] if files else []
    options += [_ZOOKEEPER_OPTION] if zookeeper else []
    options += _FILE_OPTIONS if formats and files else []
    return options_into(
        "source", partial(_source, required=required), *options, names=_SOURCE_PARAMETERS
    )


def zookeeper_source_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that select a source with nodes of ZooKeeper."""
    decorated = options_into("source", _source_of_nodes, source_options(required=False))(command)
    for option in getattr(decorated, "__click_params__", ()):
        option.hidden = option.name in _WITHOUT_NODES
    return decorated


def _source_of_nodes(source: Source) -> Source:
    source = source.of_zookeeper
    if source.file is None and source.zookeeper is None:
        raise click.UsageError(
            "this command needs a source with ZooKeeper nodes: use --zookeeper HOST:PORT/CHROOT, a "
            "--snapshot taken from ZooKeeper, or --sample"
        )
    return source


_WITHOUT_NODES = ("bootstrap_server", "log_dir")
"""Hidden options of sources without ZooKeeper nodes, accepted for a helpful error message."""

_FILE_OPTIONS: Sequence[Decorator] = [
    source_option(file_format.option, metavar="FILE", type=PATH, help=file_format.help)
    for file_format in FILE_FORMATS.values()
]
_FILE_PARAMETERS = tuple(file_format.parameter for file_format in FILE_FORMATS.values())
_SOURCE_PARAMETERS = ("connection", "log_dir", "sample", "zookeeper", *_FILE_PARAMETERS)

_ZOOKEEPER_OPTION: Decorator = source_option(
    "--zookeeper",
    metavar="HOST:PORT,…/CHROOT",
    help="Read groups of consumers of Kafka 0.7 and 0.8 from ZooKeeper, and log end offsets from "
    "the brokers registered there.",
)


def source_of(options: Mapping[str, Any], timeout_s: float) -> Source:
    """Return the source that a command's options select; for completion.

    Args:
        options: values by parameter name, as added by `source_options`; also ``files``, further log
            directories.
        timeout_s: timeout of a cluster, in seconds.

    Raises:
        click.UsageError: the options select no source, or several.
    """
    paths = (*(options.get("log_dir") or ()), *(options.get("files") or ()))
    connection = Connection(
        bootstrap_server=options.get("bootstrap_server"),
        command_config=options.get("command_config"),
        overrides=tuple(options.get("overrides") or ()),
        profile=options.get("profile"),
        timeout_s=timeout_s,
    )
    others = {name: options.get(name) for name in ("zookeeper", *_FILE_PARAMETERS)}
    return _source(connection, paths, bool(options.get("sample")), **others, required=True)


def _source(
    connection: Connection,
    log_dir: tuple[Path, ...] = (),
    sample: bool = False,
    zookeeper: str | None = None,
    *,
    required: bool,
    **path_by_parameter: Path | None,
) -> Source:
    paths = log_dirs(log_dir, sample=sample)
    # With ZooKeeper, connection settings apply to it and to its registered brokers.
    option = connection.chosen_by if zookeeper is None else connection.cluster_option
    chosen = [f"{option} (a cluster)"] if option else []
    chosen += ["--zookeeper"] if zookeeper is not None else []
    chosen += ["--sample" if sample else "--log-dir"] if paths else []
    files = [
        SourceFile(file_format, path)
        for file_format in FILE_FORMATS.values()
        if (path := path_by_parameter.get(file_format.parameter)) is not None
    ]
    chosen += [file.format.option for file in files]
    if len(chosen) > 1:
        raise click.UsageError(f"{' and '.join(chosen)} are two sources; choose one of them")
    timeout_s = connection.timeout_s
    if paths or files:
        file = files[0] if files else None
        return Source(paths, file=file, is_sample=sample, timeout_s=timeout_s)
    if zookeeper is not None:
        from kgroup.source.zookeeper.address import parse_address

        return Source((), connection, zookeeper=parse_address(zookeeper), timeout_s=timeout_s)
    if option or connection.is_default:
        return Source((), connection, timeout_s=timeout_s)
    if required:
        raise missing_source()
    return Source(timeout_s=timeout_s)


_CHOICES = {
    "bootstrap_server": "--bootstrap-server HOST:PORT or --profile NAME (a cluster)",
    "log_dir": "--log-dir PATH (a broker's log directory)",
    "zookeeper": "--zookeeper HOST:PORT/CHROOT",
    **{
        file_format.parameter: f"{file_format.option} FILE" for file_format in FILE_FORMATS.values()
    },
    "sample": "--sample (the sample data of kgroup)",
}
"""Options that select a source, by parameter name; not every command has all of them."""


def missing_source() -> click.UsageError:
    """Return the error that a source is required."""
    ctx = click.get_current_context(silent=True)
    known = {param.name for param in ctx.command.params} if ctx is not None else _CHOICES.keys()
    *choices, last = (text for name, text in _CHOICES.items() if name in known)
    return click.UsageError(f"no source of groups given: use {', '.join(choices)} or {last}")
