"""Profiles: named sets of Kafka client settings in kgroup's own configuration file.

current = "prod"                       # used where nothing else names a cluster

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

Changes edit the text and keep everything else in it: comments, order, blank lines. The new text is
parsed before it replaces the file, which stays as it is if it says anything else than expected.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from kgroup.atomic_file import output_file
from kgroup.errors import InputError, UsageError
from kgroup.source.config.client_setting import MOST_LONG, ClientSetting
from kgroup.source.config.properties_file import read_properties
from kgroup.source.config.user_file import read_user_file, user_path

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
    return sorted(_profiles(_document(file)[0], file))


def current_profile(environment: Mapping[str, str]) -> str | None:
    """Return the name of the current profile, which need not exist; None if there is none.

    Args:
        environment: environment variables of the process.

    Raises:
        InputError: the configuration file cannot be read.
        UsageError: the file is not valid.
    """
    try:
        file = config_file(environment)
    except UsageError:
        if environment.get("KGROUP_CONFIG"):
            raise
        return None  # a user without a home has no file there
    name = _document(file)[0].get("current")
    if name is not None and not isinstance(name, str):
        raise UsageError(f"{file}: current: expected the name of a profile in quotes")
    return name or None


def profile_tables(name: str, file: Path) -> list[tuple[str, str]]:
    """Return what a profile says of checks and of a database: keys and texts.

    Arguments and errors as for `read_profile`.
    """
    profile = _profile(name, file)
    tables = {key: profile[key] for key in ("check", "sql") if isinstance(profile.get(key), dict)}
    return [(key, _text(value, f"{_origin(name, file)}: {key}")) for key, value in _flat(tables)]


@dataclass(frozen=True, slots=True)
class ListedProfile:
    """A profile in a list.

    Attributes:
        name: name of the profile.
        current: whether it is the current profile, which is used where nothing else names a
            cluster.
        bootstrap_servers: brokers, as the profile or its `command-config` has them; None if
            neither has them, or the latter cannot be read.
        security_protocol: `security.protocol` as the profile has it; `PLAINTEXT` if it has none,
            None if its `command-config` cannot be read.
    """

    name: str
    current: bool
    bootstrap_servers: str | None
    security_protocol: str | None


@dataclass(frozen=True, slots=True)
class ProfileSetting:
    """A setting of a profile.

    Attributes:
        key: key of the setting: of a Kafka client, or `check.*` or `sql.*`.
        value: value of the setting; `[hidden]` for a secret, unless it is given by reference.
        origin: profile, or file and line, that has the setting.
    """

    key: str
    value: str
    origin: str


def add_profile(
    name: str,
    file: Path,
    bootstrap_server: str | None,
    command_config: Path | None,
    settings: Iterable[ClientSetting],
) -> None:
    """Add a profile at the end of the configuration file, which is created if there is none.

    Args:
        name: name of the profile.
        file: kgroup's configuration file.
        bootstrap_server: value of `bootstrap-server`.
        command_config: value of `command-config`.
        settings: the table `properties`.

    Raises:
        InputError: the file cannot be read or written.
        UsageError: the profile exists, its name is not printable, or the file is not valid.
    """
    if not name or name.startswith("-") or not name.isprintable():
        raise UsageError(f"{name!r}: expected a printable name that does not begin with -")
    if name in profile_names(file):
        raise UsageError(
            f"profile {name!r} exists in {file}; choose another name, or remove it first"
        )
    own = {} if bootstrap_server is None else {"bootstrap-server": bootstrap_server}
    if command_config is not None:
        own["command-config"] = str(command_config.absolute())
    properties = {setting.key: "".join(setting.value) for setting in settings}
    header = f"profiles.{_key(name)}"
    lines = [f"[{header}]", *(f"{key} = {_quoted(value)}" for key, value in own.items())]
    if properties:
        lines += ["", f"[{header}.properties]"]
        lines += [f"{_quoted(key)} = {_quoted(value)}" for key, value in properties.items()]
    profile = own | ({"properties": properties} if properties else {})

    def edit(text: str) -> str:
        before = "" if not text.strip() else text.rstrip("\n") + "\n\n"
        return before + "\n".join(lines) + "\n"

    _edit(file, edit, lambda document: document["profiles"].update({name: profile}))


def use_profile(name: str, file: Path) -> None:
    """Make a profile the current one; arguments and errors as for `add_profile`."""
    _profile(name, file)
    line = f"current = {_quoted(name)}"

    def edit(text: str) -> str:
        root, tables = _root(text)
        if _CURRENT.search(root):
            return _CURRENT.sub(lambda match: f"{line}{match['comment'] or ''}\n", root, 1) + tables
        end = "" if not root or root.endswith("\n") else "\n"
        return f"{root}{end}{line}\n\n{tables}"

    _edit(file, edit, lambda document: document.update(current=name))


def remove_profile(name: str, file: Path) -> bool:
    """Remove a profile; return whether it was the current one, of which there is none then.

    Arguments and errors as for `add_profile`.
    """
    _profile(name, file)
    is_current = _document(file)[0].get("current") == name

    def edit(text: str) -> str:
        from kgroup.user_toml import table_starts

        starts = table_starts(text)
        bounds = [*(start for start, _ in starts), len(text)]
        kept = [
            text[start:end]
            for (start, keys), end in zip(starts, bounds[1:], strict=True)
            if keys[:2] != ("profiles", name)
        ]
        root, _ = _root(text)
        return (_CURRENT.sub("", root, 1) if is_current else root).lstrip("\n") + "".join(kept)

    def change(document: dict[str, Any]) -> None:
        del document["profiles"][name]
        if is_current:
            del document["current"]

    _edit(file, edit, change)
    return is_current


_CURRENT = re.compile(
    r"""^current[ \t]*=[ \t]*(?:"[^"\n]*"|'[^'\n]*')(?P<comment>[ \t]*\#[^\n]*)?[ \t]*(?:\n|\Z)""",
    re.MULTILINE,
)


def _root(text: str) -> tuple[str, str]:
    """Return the text before the first table, and the rest."""
    from kgroup.user_toml import table_starts

    start = next((start for start, _ in table_starts(text)), len(text))
    return text[:start], text[start:]


def _edit(
    file: Path, edit: Callable[[str], str], change: Callable[[dict[str, Any]], object]
) -> None:
    """Replace a file by its edited text, if that says what the changed document says.

    Args:
        file: kgroup's configuration file; it is created if it does not exist.
        edit: returns the new text.
        change: changes the document likewise.
    """
    import tomllib

    document, text = _document(file)
    document.setdefault("profiles", {})
    change(document)
    edited = edit(text.replace("\r\n", "\n"))
    try:
        is_expected = {"profiles": {}, **tomllib.loads(edited)} == document
    except tomllib.TOMLDecodeError:
        is_expected = False
    if not is_expected:
        raise UsageError(
            f"{file}: expected each profile in tables of its own, [profiles.NAME]; found another "
            "way of writing them, which kgroup does not change. Edit the file by hand"
        )
    if "\r\n" in text:
        edited = edited.replace("\n", "\r\n")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with output_file(file, None) as output:
            os.fchmod(output.fileno(), 0o600)
            output.write(edited.encode())
    except OSError as error:
        raise InputError(f"{file}: cannot write it: {error.strerror}", path=str(file)) from None


def _key(name: str) -> str:
    return name if re.fullmatch("[A-Za-z0-9_-]+", name) else _quoted(name)


def _quoted(text: str) -> str:
    """Return a basic string of TOML, whose escapes are those of JSON."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _origin(name: str, file: Path) -> str:
    return f"profile {name!r} of {file}"


def _profile(name: str, file: Path) -> Mapping[str, Any]:
    """Return a profile after validation of its keys."""
    profiles = _profiles(_document(file, name)[0], file)
    if name not in profiles:
        from difflib import get_close_matches

        close = get_close_matches(name, profiles) or sorted(profiles)
        known = f"; it has {', '.join(close)}" if close else ""
        raise _no_profile(name, file, known)
    origin = _origin(name, file)
    profile = _table(profiles[name], f"{origin}: expected a table")
    for key in profile:
        if key not in _KEYS:
            raise UsageError(f"{origin}: expected {', '.join(_KEYS)}; found {key!r}")
    return profile


def _no_profile(name: str, file: Path, known: str = "") -> UsageError:
    return UsageError(
        f"{file}: expected a profile {name!r}, found none{known}. To add it, run: kgroup profile "
        f"add {quote(name)} -b HOST:PORT"
    )


def _profiles(document: Mapping[str, Any], file: Path) -> Mapping[str, Any]:
    return _table(document.get("profiles", {}), f"{file}: profiles: expected a table")


def _document(file: Path, name: str | None = None) -> tuple[dict[str, Any], str]:
    """Return the parsed configuration file, and its text.

    Both are empty if there is no file, unless a profile is named, which has to be in it.
    """
    import tomllib

    from kgroup.user_toml import TomlLimitError, parse_toml

    if name is None and not os.path.exists(file):
        return {}, ""
    absent = None if name is None else _no_profile(name, file)
    try:
        text = read_user_file(file, str(file), absent).decode()
        return parse_toml(text.replace("\r\n", "\n").replace("\r", "\n")), text
    except UnicodeDecodeError:
        raise UsageError(f"{file}: expected TOML, found bytes that are no UTF-8") from None
    except TomlLimitError as error:
        raise UsageError(f"{file}:{error.line}: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{file}: expected TOML: {error}") from None


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
