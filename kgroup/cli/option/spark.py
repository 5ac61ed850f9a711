"""Options that say which Spark does the work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import click

from kgroup.cli.option.common import parsed


@dataclass(frozen=True, slots=True)
class SparkChoice:
    """What the options say.

    Attributes:
        master: URL of Spark's master; None: by default.
        settings: of Spark, by name.
    """

    master: str | None
    settings: Mapping[str, str]

    @property
    def words(self) -> Sequence[str]:
        """The options, as they were given; values that are secret are "..."."""
        from kgroup.redaction import is_secret, redact

        found = [] if self.master is None else ["--master", self.master]
        for name, value in self.settings.items():
            shown = "..." if is_secret(name) or redact(value) != value else value
            found += ["--spark-conf", f"{name}={shown}"]
        return found


def spark_options(default: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add `--master` and `--spark-conf`; the command takes ``spark: SparkChoice``.

    Args:
        default: what happens without a master, for people.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def with_spark(*, master: str | None, settings: Mapping[str, str], **rest: Any) -> Any:
            return command(spark=SparkChoice(master, settings), **rest)

        master_option = click.option(
            "--master",
            metavar="URL",
            help="Spark's master to do the work, such as local[4] or spark://host:7077.  "
            f"[default: {default}]",
        )
        setting_option = click.option(
            "--spark-conf",
            "settings",
            metavar="NAME=VALUE",
            multiple=True,
            callback=parsed(_parse_settings),
            help="A setting of Spark. Repeat it for more.",
        )
        return master_option(setting_option(with_spark))

    return decorate


def _parse_settings(texts: Sequence[str]) -> Mapping[str, str]:
    settings = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise ValueError(f"expected NAME=VALUE, found {text!r}")
        settings[name] = value
    return settings
