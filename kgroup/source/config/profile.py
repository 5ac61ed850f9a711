"""Profiles: named sets of Kafka client settings in kgroup's own configuration file.

[profiles.prod]
bootstrap-server = "kafka-1:9093,kafka-2:9093"
command-config = "prod.properties"     # relative to this file, or an absolute path

[profiles.prod.properties]             # Kafka's own names; override command-config
"client.id" = "night-shift"

[profiles.prod.check]                  # limits of kgroup check, see kgroup.operation.check.look
old-commit = "1h"
lag = 100000

[profiles.prod.check.groups."billing-.*"]   # limits of groups, by id or regular expression
lag = 1000
time-lag = "5m"

[profiles.prod.sql]                    # where offsets are stored, see kgroup.source.sql.address
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgroup.errors import UsageError
from kgroup.source.config.client_setting import MOST_LONG, ClientSetting
from kgroup.source.config.properties_file import read_properties, read_user_file, user_path

_CONFIG_FILE = "~/.config/kgroup/config.toml"

_KEYS = ("bootstrap-server", "command-config", "properties", "sql", "check")


def config_file(environment: Mapping[str, str]) -> Path:
    """Return the path of kgroup's configuration file, which the environment may set.

    Raises:
        UsageError: the path is in the home directory of a user who has none.
    """
    return user_path(environment.get("KGROUP_CONFIG") or _CONFIG_FILE, "$KGROUP_CONFIG")


def read_profile(name: str, file: Path) -> list[ClientSetting]:
    """Return a profile's settings, in order of increasing precedence.

    Args:
        name: name of the profile.
        file: kgroup's configuration file.

    Raises:
        InputError: a file cannot be read.
        UsageError: the profile does not exist, or has an invalid entry.
    """
    origin = _origin(name, file)
    profile = _profile(name, file)
    settings = []
    command_config = profile.get("command-config")
    if command_config is not None:
        where = f"{origin}: command-config"
        path = file.parent / user_path(_text(command_config, where), where)
        settings += read_properties(path, f"profile {name!r}, ")
    server = profile.get("bootstrap-server")
    if server is not None:
        text = _text(server, f"{origin}: bootstrap-server")
        settings.append(ClientSetting("bootstrap.servers", text, origin))
    properties = _table(profile.get("properties", {}), f"{origin}: properties: expected a table")
    for key, value in _flat(properties):
        settings.append(ClientSetting(key, _text(value, f"{origin}: {key}"), origin))
    return settings


def read_sql_profile(name: str, file: Path) -> tuple[Mapping[str, Any], str] | None:
    """Return a profile's table for an SQL database, unparsed, and its origin.

    None if it has none; arguments and errors as for `read_profile`.
    """
    origin = _origin(name, file)
    table = _profile(name, file).get("sql")
    return None if table is None else (_table(table, f"{origin}: sql: expected a table"), origin)


@dataclass(frozen=True, slots=True)
class CheckProfile:
    """Limits of `kgroup check`, as texts by name.

    Attributes:
        origin: profile and file, for errors.
        limits: limits of all groups.
        group_limits: limits of some groups, by an id, or a regular expression for ids, in file
            order.
    """

    origin: str
    limits: Mapping[str, str]
    group_limits: Mapping[str, Mapping[str, str]]


def read_check_profile(name: str, file: Path) -> CheckProfile:
    """Return the limits of checks that a profile has.

    Arguments and errors as for `read_profile`.
    """
    origin = f"{_origin(name, file)}: check"
    table = dict(_table(_profile(name, file).get("check", {}), f"{origin}: expected a table"))
    groups = _table(table.pop("groups", {}), f"{origin}: groups: expected a table")
    return CheckProfile(
        origin,
        _texts(table, origin),
        {
            key: _texts(_table(limits, f"{where}: expected a table of limits"), where)
            for key, limits in groups.items()
            for where in [f"{origin}: groups: {key}"]
        },
    )


def _texts(table: Mapping[str, Any], where: str) -> dict[str, str]:
    return {key: _text(value, f"{where}: {key}") for key, value in table.items()}


def profile_names(file: Path) -> list[str]:
    """Return the names of all profiles, sorted; errors as for `read_profile`."""
    return sorted(_profiles(file, "NAME"))


def _origin(name: str, file: Path) -> str:
    return f"profile {name!r} of {file}"


def _profile(name: str, file: Path) -> Mapping[str, Any]:
    """Return a profile after validation of its keys."""
    profiles = _profiles(file, name)
    if name not in profiles:
        from difflib import get_close_matches

        close = get_close_matches(name, profiles) or sorted(profiles)
        known = f"; it has {', '.join(close)}" if close else ""
        raise UsageError(f"{file}: expected a profile {name!r}, found none{known}")
    origin = _origin(name, file)
    profile = _table(profiles[name], f"{origin}: expected a table")
    for key in profile:
        if key not in _KEYS:
            raise UsageError(f"{origin}: expected {', '.join(_KEYS)}; found {key!r}")
    return profile


def _profiles(file: Path, name: str) -> Mapping[str, Any]:
    import tomllib

    from kgroup.user_toml import TomlLimitError, parse_toml

    absent = f"expected a table [profiles.{name}] in it, found no such file"
    try:
        text = read_user_file(file, str(file), absent).decode()
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        document = parse_toml(text)
    except UnicodeDecodeError:
        raise UsageError(f"{file}: expected TOML, found bytes that are no UTF-8") from None
    except TomlLimitError as error:
        raise UsageError(f"{file}:{error.line}: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{file}: expected TOML: {error}") from None
    return _table(document.get("profiles", {}), f"{file}: profiles: expected a table")


def _flat(table: Mapping[str, Any], prefix: str = "") -> list[tuple[str, object]]:
    """Join the parts of keys that were written without quotes, as in ``client.id = "x"``."""
    entries: list[tuple[str, object]] = []
    for key, value in table.items():
        if isinstance(value, dict):
            entries += _flat(value, f"{prefix}{key}.")
        else:
            entries.append((prefix + key, value))
    return entries


def _table(value: object, expected: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(expected)
    return value


def _text(value: object, where: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) or (isinstance(value, int) and -MOST_LONG <= value <= MOST_LONG):
        return str(value)
    raise UsageError(f"{where}: expected a text or a whole number of 64 bits, found neither")
