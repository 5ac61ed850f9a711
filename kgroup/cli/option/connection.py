"""Options that select a cluster and the connection to it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kgroup.cli.command_group import Block, BlockOption
from kgroup.cli.option.common import PATH, options_into, parsed
from kgroup.cli.option.parameter import parse_seconds
from kgroup.cli.output.context import warn
from kgroup.cli.shell.suggestion import suggest_profiles

if TYPE_CHECKING:
    from kgroup.source.broker.source import LiveCluster
    from kgroup.source.config.client_config import ClientConfig
    from kgroup.source.zookeeper.address import ZookeeperAddress
    from kgroup.source.zookeeper.source import Zookeeper

DEFAULT_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Connection:
    """Values of the connection options.

    Attributes:
        bootstrap_server: `-b`, None without.
        command_config: Java properties file, None without.
        overrides: each `-X`, as key=value; may contain secrets.
        profile: `-C`, None without.
        timeout_s: timeout in seconds.
    """

    bootstrap_server: str | None
    command_config: Path | None
    overrides: tuple[str, ...]
    profile: str | None
    timeout_s: float

    def __repr__(self) -> str:
        return f"Connection({self.bootstrap_server!r}, …)"

    @property
    def chosen_by(self) -> str | None:
        """The given option of highest precedence that selects a cluster; None without."""
        options = {
            "--bootstrap-server": self.bootstrap_server is not None,
            "-X": bool(self.overrides),
            "--command-config": self.command_config is not None,
            "--profile": self.profile is not None,
        }
        return next((name for name, is_given in options.items() if is_given), None)

    @property
    def cluster_option(self) -> str | None:
        """The option that names brokers; None without."""
        return "--bootstrap-server" if self.bootstrap_server is not None else None

    @property
    def is_default(self) -> bool:
        """Whether the environment or a current profile names a cluster, as the default source."""
        return bool(os.environ.get("KGROUP_BOOTSTRAP_SERVER")) or self.profile_name() is not None

    def profile_name(self, *, with_environment: bool = True) -> str | None:
        """Return the name of the profile in use: that of `-C`, of the environment, or the current.

        The current one is used if nothing else names brokers, so that its credentials are never
        sent to another cluster.

        Args:
            with_environment: whether to use a profile without `-C`.

        Raises:
            InputError: a file cannot be read.
            UsageError: a setting is invalid.
        """
        named = self.profile or (os.environ.get("KGROUP_PROFILE") if with_environment else None)
        is_named = self.bootstrap_server is not None or os.environ.get("KGROUP_BOOTSTRAP_SERVER")
        if named or is_named or not with_environment:
            return named or None
        from kgroup.source.config.client_config import parse_overrides
        from kgroup.source.config.profile import current_profile
        from kgroup.source.config.properties_file import read_properties

        settings = [*parse_overrides(self.overrides)]
        settings += [] if self.command_config is None else read_properties(self.command_config)
        if any(setting.key == "bootstrap.servers" and setting.value for setting in settings):
            return None
        return current_profile(os.environ)

    def words(self, *, with_environment: bool = True) -> tuple[list[str], list[str]]:
        """Return the options as words of a command line, without secrets.

        Args:
            with_environment: also add options that replace environment variables, so that they have
                the same meaning in another shell.

        Returns:
            Words of a command line, and the keys whose values are secret.
        """
        from kgroup.redaction import is_secret, redact

        environment = os.environ if with_environment else {}
        server = self.bootstrap_server
        if server is None and not self.overrides and self.command_config is None:  # take precedence
            server = environment.get("KGROUP_BOOTSTRAP_SERVER") or None
        words: list[str] = []
        for option, value in (
            ("-b", server),
            ("--command-config", self.command_config),
            ("-C", self.profile_name(with_environment=with_environment)),
        ):
            words += [option, str(value)] if value is not None else []
        secret = []
        for override in self.overrides:
            key = override.partition("=")[0].strip()
            if is_secret(key) or redact(override) != override:
                secret.append(key)
            else:
                words += ["-X", override]
        if self.timeout_s != DEFAULT_TIMEOUT_S:
            words += ["--timeout", f"{self.timeout_s:g}"]
        return words, secret

    def printed(
        self, config: ClientConfig, zookeeper: str | None = None
    ) -> AbstractContextManager[None]:
        """Include these options in commands that reports print; secret values become "...".

        Kafka's own tools support neither profiles nor -X. Their commands contain the bootstrap
        servers and, if TLS or SASL is used without a file, the placeholder `--command-config ...`.

        Args:
            config: configuration that results from the options.
            zookeeper: address of ZooKeeper, if the options are for its connection.
        """
        from kgroup.operation.printed_command import connected_by

        connection = self if zookeeper is None else replace(self, bootstrap_server=None)
        words, secrets = connection.words(with_environment=zookeeper is None)
        for key in secrets:
            words += ["-X", f"{key}=..."]
        source = () if zookeeper is None else ("--zookeeper", zookeeper)
        profile = self.profile_name(with_environment=zookeeper is None)
        if profile is not None and config.bootstrap_servers:
            profile += f" ({','.join(config.bootstrap_servers)})"
        file = None if self.command_config is None else str(self.command_config)
        if file is None and config.security_protocol != "PLAINTEXT":
            file = "..."
        return connected_by(
            words=tuple(words),
            servers=",".join(config.bootstrap_servers) or None,
            config=file,
            source=source,
            is_live=bool(source),
            profile=profile,
        )

    def client_config(
        self, *, needs_server: bool = True, with_environment: bool = True, warns: bool = True
    ) -> ClientConfig:
        """Return the configuration from options, environment and profiles; warn of unused settings.

        Args:
            needs_server: whether the configuration must name brokers.
            with_environment: whether to use the cluster that the environment names.
            warns: whether to warn; not if the same command has read the configuration before.

        Raises:
            InputError: a file cannot be read.
            UsageError: a setting is missing or invalid.
        """
        from kgroup.source.config.client_config import client_config

        environment = dict(os.environ)
        if not with_environment:
            environment.pop("KGROUP_BOOTSTRAP_SERVER", None)
            environment.pop("KGROUP_PROFILE", None)
        config = client_config(
            environment=environment,
            bootstrap_server=self.bootstrap_server,
            overrides=self.overrides,
            command_config=self.command_config,
            profile=self.profile_name(with_environment=with_environment),
            needs_server=needs_server,
        )
        for note in config.notes if warns else ():
            warn(f"note: {note}")
        return config

    @contextmanager
    def open_zookeeper(self, address: ZookeeperAddress, *, of_silence: bool) -> Iterator[Zookeeper]:
        """Yield ZooKeeper, with the registered brokers, while the context is open.

        The cluster in the environment is a different source, and is ignored. Brokers of a profile
        or a setting replace the registered ones.

        Raises:
            InputError: a configuration file cannot be read.
            UsageError: the configuration is invalid.
        """
        config = self.client_config(needs_server=False, with_environment=False)
        tls = config.zookeeper_tls
        from kgroup.source.zookeeper.source import Zookeeper

        with (
            self.printed(config, str(address)),
            Zookeeper(
                address,
                timeout_s=self.timeout_s,
                of_silence=of_silence,
                context=None if tls is None else tls.context(),
                digest=config.zookeeper_digest,
                brokers=config.kafka_options(),
            ) as zookeeper,
        ):
            yield zookeeper

    @contextmanager
    def open(self, *, of_silence: bool = False) -> Iterator[LiveCluster]:
        """Yield the cluster while the context is open.

        Args:
            of_silence: the timeout limits the time without any response, instead of the total time.

        Raises:
            InputError: a configuration file cannot be read.
            UsageError: the configuration is invalid.
        """
        config = self.client_config()
        options = config.kafka_options()
        from kgroup.source.broker.source import LiveCluster

        with (
            self.printed(config),
            LiveCluster(
                options.pop("bootstrap_servers"),
                timeout_s=self.timeout_s,
                of_silence=of_silence,
                **options,
            ) as cluster,
        ):
            yield cluster


_option = partial(click.option, cls=BlockOption, block=Block.CONNECTION)
connection_options = options_into(
    "connection",
    Connection,
    _option(
        "-b",
        "--bootstrap-server",
        metavar="HOST:PORT,…",
        help="Connect to the cluster with these brokers; the default port is 9092.  [env var: "
        "KGROUP_BOOTSTRAP_SERVER]",
    ),
    _option(
        "--command-config",
        metavar="FILE",
        type=PATH,
        help="Read Kafka client settings from a .properties file, as Kafka's own tools do.",
    ),
    _option(
        "-X",
        "overrides",
        metavar="KEY=VALUE",
        multiple=True,
        help="Set one Kafka client setting; overrides the file. Repeatable.",
    ),
    _option(
        "-C",
        "--profile",
        metavar="NAME",
        shell_complete=suggest_profiles,
        help="Connect with this profile, see 'kgroup profile'; the default is the current one.  "
        "[env var: KGROUP_PROFILE]",
    ),
    _option(
        "--timeout",
        "timeout_s",
        metavar="SECONDS",
        default=f"{DEFAULT_TIMEOUT_S:g}",
        callback=parsed(parse_seconds),
        show_default=True,
        help="Wait at most SECONDS for the cluster; with many groups, for its next response.",
    ),
)
"""Adds the connection options; the command takes ``connection: Connection``."""
