"""Options that say which cluster to ask, and how to connect to it."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from kgroup.source.client_config import ClientConfig

__all__ = ["Connection", "connection_options"]

DEFAULT_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Connection:
    """What the connection options say.

    Attributes:
        bootstrap_server: `-b`, None without.
        command_config: file of Java properties, None without.
        overrides: each `-X`, as key=value; they may hold secrets.
        profile: `-C`, None without.
        timeout_s: how long to wait.
    """

    bootstrap_server: str | None
    command_config: Path | None
    overrides: tuple[str, ...]
    profile: str | None
    timeout_s: float

    def __repr__(self) -> str:
        return f"Connection({self.bootstrap_server!r}, …)"

    @property
    def is_chosen(self) -> bool:
        """Whether any option says to ask a cluster."""
        return bool(self.bootstrap_server or self.command_config or self.overrides or self.profile)

    def client_config(self) -> "ClientConfig":
        """Put the configuration together, with the environment and the profiles.

        Raises:
            UsageError: something is missing or is not as it should be.
        """
        from kgroup.source.client_config import client_config

        return client_config(
            environment=os.environ,
            bootstrap_server=self.bootstrap_server,
            overrides=self.overrides,
            command_config=self.command_config,
            profile=self.profile,
        )


def connection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the connection options; the command takes ``connection: Connection``."""

    @wraps(command)
    def with_connection(
        *,
        bootstrap_server: str | None,
        command_config: Path | None,
        overrides: tuple[str, ...],
        profile: str | None,
        timeout_s: float,
        **rest: Any,
    ) -> Any:
        connection = Connection(bootstrap_server, command_config, overrides, profile, timeout_s)
        return command(connection=connection, **rest)

    decorated: Callable[..., Any] = with_connection
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


_OPTIONS = (
    click.option(
        "-b",
        "--bootstrap-server",
        metavar="HOST:PORT,…",
        help="Brokers of the cluster to ask; $KGROUP_BOOTSTRAP_SERVER. The port is 9092 where it "
        "is left out.",
    ),
    click.option(
        "--command-config",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Settings of Kafka's own clients, as a Java .properties file.",
    ),
    click.option(
        "-X",
        "overrides",
        metavar="KEY=VALUE",
        multiple=True,
        help="One such setting, stronger than the file. Repeat it for more.",
    ),
    click.option(
        "-C",
        "--profile",
        metavar="NAME",
        help="Profile of ~/.config/kgroup/config.toml ($KGROUP_CONFIG) to connect by; "
        "$KGROUP_PROFILE.",
    ),
    click.option(
        "--timeout",
        "timeout_s",
        metavar="SECONDS",
        type=click.FloatRange(min=0, min_open=True),
        default=DEFAULT_TIMEOUT_S,
        show_default=True,
        help="How long to wait for the cluster.",
    ),
)
