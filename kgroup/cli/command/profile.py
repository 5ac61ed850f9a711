"""`kgroup profile` and its commands."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kgroup.cli.command_group import CommandGroup
from kgroup.cli.option.common import PATH, examples, output_options
from kgroup.cli.output.context import Output, show, warn
from kgroup.cli.shell.suggestion import suggest_profiles
from kgroup.errors import ExitStatus, KgroupError, UsageError

if TYPE_CHECKING:
    from kgroup.source.config.client_setting import ClientSetting

command = CommandGroup(
    "kgroup profile",
    """List and edit profiles: named clusters with their settings.

    Profiles are in ~/.config/kgroup/config.toml ($KGROUP_CONFIG). --profile (-C) or $KGROUP_PROFILE
    selects one for a command; otherwise, the current profile is used if no option and no
    variable names a cluster or another source.
    """,
)

_name_argument = click.argument("name", metavar="NAME", shell_complete=suggest_profiles)


def _file() -> Path:
    from kgroup.source.config.profile import config_file

    return config_file(os.environ)


@command.command("list", epilog=examples("kgroup profile list", "kgroup profile list -o json"))
@output_options("profile.PROFILE_COLUMNS")
def list_command(output: Output) -> ExitStatus:
    """List the profiles, and which one is current."""
    from kgroup.model.problem import Problem
    from kgroup.operation.report import Report
    from kgroup.source.config.client_setting import ClientSettings
    from kgroup.source.config.profile import (
        ListedProfile,
        current_profile,
        profile_names,
        read_profile,
    )

    file, current = _file(), current_profile(os.environ)
    rows, problems, notes = [], [], []
    names = profile_names(file)
    for name in names:
        servers = protocol = None
        try:
            settings = ClientSettings.merged(read_profile(name, file))
            servers = settings.text("bootstrap.servers")
            protocol = (settings.text("security.protocol") or "PLAINTEXT").upper()
        except KgroupError as error:
            problems.append(Problem(error.kind, str(error), path=error.path))
        rows.append(ListedProfile(name, name == current, servers, protocol))
    if not names:
        notes.append(f"{file} has no profiles; add one: kgroup profile add NAME -b HOST:PORT")
    if current is not None and current not in names:
        notes.append(f"{file}: the current profile {current!r} does not exist")
    if chosen := os.environ.get("KGROUP_PROFILE"):
        notes.append(f"$KGROUP_PROFILE selects {chosen!r} instead of the current profile")
    return show(Report(tuple(rows), tuple(problems), tuple(notes), _status(problems)), output)


def _status(problems: Sequence[object]) -> ExitStatus:
    return ExitStatus.PARTLY if problems else ExitStatus.DONE


@command.command("show", epilog=examples("kgroup profile show", "kgroup profile show prod -o json"))
@click.argument("name", metavar="[NAME]", required=False, shell_complete=suggest_profiles)
@output_options("profile.SETTING_COLUMNS")
def show_command(name: str | None, output: Output) -> ExitStatus:
    """Show the settings of a profile, by default of the one in use.

    Secrets are not shown, but references to them are: env:NAME, file:PATH, and the program of
    cmd:COMMAND.
    """
    from kgroup.operation.report import Report
    from kgroup.source.config.client_setting import ClientSetting, ClientSettings
    from kgroup.source.config.profile import (
        ProfileSetting,
        current_profile,
        profile_tables,
        read_profile,
    )

    name = name or os.environ.get("KGROUP_PROFILE") or current_profile(os.environ)
    file = _file()
    if name is None:
        raise UsageError(
            f"{file}: expected a current profile, found none; name one, or choose one: "
            "kgroup profile use NAME"
        )
    settings = ClientSettings.merged(
        read_profile(name, file),
        [ClientSetting(key, text, f"profile {name!r}") for key, text in profile_tables(name, file)],
    )
    rows = [
        ProfileSetting(item.key, _shown(item), item.origin) for item in settings.by_key.values()
    ]
    return show(Report(tuple(rows), verdict=ExitStatus.DONE), output)


def _shown(setting: ClientSetting) -> str:
    """Return a value without secrets."""
    from kgroup.redaction import HIDDEN, is_reference, is_secret, redact
    from kgroup.source.config.client_setting import shown_reference

    if not is_secret(setting.key) and setting.key != "sql.url":
        return redact(setting.value)
    if is_reference(setting.value):
        return shown_reference(setting.value)
    references = [
        f"{option} from {shown_reference(''.join(value))}"
        for option, value in _login_options(setting)
        if is_reference(value)
    ]
    return ", ".join([HIDDEN, *references])


def _login_options(setting: ClientSetting) -> Iterator[tuple[str, str]]:
    """Yield the options of `sasl.jaas.config` that are secrets, or references to them."""
    from kgroup.redaction import is_secret
    from kgroup.source.config.sasl import parse_jaas

    if setting.key == "sasl.jaas.config":
        yield from (item for item in parse_jaas(setting).options.items() if is_secret(item[0]))


def _has_secret(setting: ClientSetting) -> bool:
    """Return whether a value contains a secret itself, not a reference to one."""
    from kgroup.redaction import is_reference, is_secret, redact

    if not is_secret(setting.key):
        return redact(setting.value) != setting.value
    if not setting.value or is_reference(setting.value):
        return False
    if setting.key == "sasl.jaas.config":
        return not all(is_reference(value) for _, value in _login_options(setting))
    return True


@command.command(
    "add",
    epilog=examples(
        "kgroup profile add staging -b kafka-1:9092",
        "kgroup profile add prod --command-config prod.properties",
        "kgroup profile add prod -b kafka-1:9093 -X security.protocol=SSL "
        "-X ssl.keystore.location=/etc/kgroup/me.p12 -X ssl.keystore.type=PKCS12 "
        "-X ssl.keystore.password=env:KEYSTORE_PASSWORD",
    ),
)
@click.argument("name", metavar="NAME")
@click.option(
    "-b",
    "--bootstrap-server",
    metavar="HOST:PORT,…",
    help="Brokers of the cluster; the default port is 9092.",
)
@click.option(
    "--command-config",
    metavar="FILE",
    type=PATH,
    help="Kafka client settings in a .properties file, which stays where it is.",
)
@click.option(
    "-X",
    "overrides",
    metavar="KEY=VALUE",
    multiple=True,
    help="A Kafka client setting; overrides the file. Repeatable.",
)
def add_command(
    name: str, bootstrap_server: str | None, command_config: Path | None, overrides: Sequence[str]
) -> ExitStatus:
    """Add a profile at the end of the configuration file.

    Secrets are given by reference: env:NAME (a variable), file:PATH (the contents of a file) or
    cmd:COMMAND (what a command prints). To test the connection, run 'kgroup
    doctor -C NAME'.
    """
    from kgroup.operation.printed_command import kgroup_command
    from kgroup.source.config.client_config import notes_on_keys, parse_overrides, parse_servers
    from kgroup.source.config.client_setting import ClientSetting, ClientSettings
    from kgroup.source.config.profile import add_profile
    from kgroup.source.config.properties_file import read_properties

    settings = [*parse_overrides(overrides)]
    for setting in settings:
        if _has_secret(setting):
            raise UsageError(
                f"{setting.where}: expected the secret by reference (env:NAME, file:PATH or "
                "cmd:COMMAND; in sasl.jaas.config, the password alone may be one), found the "
                "secret itself, which kgroup does not store"
            )
    in_file = [] if command_config is None else read_properties(command_config)
    flag = [] if bootstrap_server is None else [bootstrap_server]
    flags = [ClientSetting("bootstrap.servers", text, "--bootstrap-server") for text in flag]
    merged = ClientSettings.merged(in_file, settings, flags)
    parse_servers(merged)
    notes = notes_on_keys(merged.by_key.values())
    file = _file()
    add_profile(name, file, bootstrap_server, command_config, settings)
    for note in notes:
        warn(f"note: {note}")
    if stored := [setting.where for setting in in_file if _has_secret(setting)]:
        warn(
            f"note: {', '.join(stored)}: the file has the secret itself; kgroup also reads "
            "env:NAME, file:PATH and cmd:COMMAND there, but Kafka's own tools do not"
        )
    warn(f"note: added profile {name!r} to {file}")
    warn(f"note: to make it the current one: {kgroup_command('profile use', [name])}")
    return ExitStatus.DONE


@command.command("use", epilog=examples("kgroup profile use prod"))
@_name_argument
def use_command(name: str) -> ExitStatus:
    """Make a profile the current one.

    Commands use it if no option and no variable ($KGROUP_PROFILE, $KGROUP_BOOTSTRAP_SERVER) names a
    cluster or another source. -b, or bootstrap.servers given otherwise, replaces the whole
    profile, so that its credentials are never sent to another cluster.
    """
    from kgroup.source.config.profile import use_profile

    file = _file()
    use_profile(name, file)
    warn(f"note: {name!r} is the current profile of {file}")
    if chosen := os.environ.get("KGROUP_PROFILE"):
        warn(f"note: $KGROUP_PROFILE selects {chosen!r} instead")
    return ExitStatus.DONE


@command.command("remove", epilog=examples("kgroup profile remove staging"))
@_name_argument
def remove_command(name: str) -> ExitStatus:
    """Remove a profile from the configuration file.

    The comment lines directly above its tables are removed as well.
    """
    from kgroup.source.config.profile import remove_profile

    file = _file()
    was_current = remove_profile(name, file)
    warn(f"note: removed profile {name!r} from {file}")
    if was_current:
        warn("note: it was the current profile; none is current now")
    return ExitStatus.DONE
