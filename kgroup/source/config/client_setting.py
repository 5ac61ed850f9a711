"""Settings of a Kafka client, with their origin; secret values are not displayed.

Keys and values are those of Kafka's own clients (`ssl.truststore.location`, `sasl.mechanism`, …).
A secret value may be a reference, which is read when the setting is used:

env:NAME     the environment variable NAME
file:PATH    the contents of a file; a relative path starts at the current folder
cmd:COMMAND  what a command writes to standard output. It runs without a shell (`sh -c '...'` for
             one) and without standard input, for at most 10 seconds; its messages are discarded
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache

from kgroup.errors import InputError, KgroupError, UsageError
from kgroup.redaction import (
    HIDDEN,
    is_reference,
    is_secret,
    keep_named_secrets,
    keep_secret,
    keep_userinfo,
    redact,
)
from kgroup.source.config.user_file import LARGEST_FILE, read_user_file, user_path

MOST_INT = (1 << 31) - 1
MOST_LONG = (1 << 63) - 1
JAVA_BLANK = "".join(map(chr, range(33)))
"""Characters removed by String.trim(), which Kafka's ConfigDef applies to every value."""

_SHOWN = 200
"""Maximum characters of an invalid value that a message shows."""


class Secret(str):
    """A text that can be used, but is hidden wherever it would be displayed.

    It is a `str` because kafka-python and ssl require one: joining and encoding return the real
    text; `str()`, `repr()`, formatting and logging do not.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return HIDDEN

    def __str__(self) -> str:
        return HIDDEN

    def __format__(self, spec: str) -> str:
        return format(HIDDEN, spec)


@dataclass(frozen=True, slots=True)
class ClientSetting:
    """One key with its value.

    Attributes:
        key: key of Kafka's clients.
        value: value without surrounding blanks; a `Secret` if the key is secret, unless it is a
            reference to one.
        origin: where it was set, for people: ``client.properties:3``, ``-X``, ``profile 'prod'``.
    """

    key: str
    value: str = field(repr=False)
    origin: str

    def __post_init__(self) -> None:
        value = self.value.strip(JAVA_BLANK)
        if is_secret(self.key) and (isinstance(self.value, Secret) or not is_reference(value)):
            keep_secret(value)
            value = Secret(value)
        keep_named_secrets(value)
        if is_secret(self.key) or self.key == "bootstrap.servers" or "://" in value:
            keep_userinfo(value)
        object.__setattr__(self, "value", value)

    @property
    def where(self) -> str:
        """Key and origin, to start a message with."""
        return f"{self.key} ({self.origin})"

    def resolved(self) -> ClientSetting:
        """Return the setting with the secret that its value refers to; others as they are.

        Raises:
            KgroupError: as `read_secret`.
        """
        if not is_secret(self.key) or not is_reference(self.value):
            return self
        return ClientSetting(self.key, Secret(read_secret(self.value, self.where)), self.origin)

    def expected(self, what: str, found: str | None = None) -> UsageError:
        """Return the error of an invalid value.

        Args:
            what: what was expected.
            found: what was found; None: the value.
        """
        shown = repr(redact(self.value)[:_SHOWN]) + ("…" if len(self.value) > _SHOWN else "")
        value = "something else" if isinstance(self.value, Secret) else shown
        return UsageError(f"{self.where}: expected {what}, found {found or value}")


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """All settings by key; a key with an empty value counts as not set."""

    by_key: Mapping[str, ClientSetting]

    @classmethod
    def merged(cls, *layers: Iterable[ClientSetting]) -> ClientSettings:
        """Merge layers in order of increasing precedence."""
        return cls({setting.key: setting for layer in layers for setting in layer})

    def below(self, prefix: str) -> ClientSettings:
        """Return the settings whose keys start with a prefix, with the prefix removed."""
        return ClientSettings(
            {
                key.removeprefix(prefix): setting
                for key, setting in self.by_key.items()
                if key.startswith(prefix)
            }
        )

    def get(self, key: str) -> ClientSetting | None:
        """Return the setting of a key; None if it is not set.

        Raises:
            KgroupError: its value refers to a secret that cannot be read.
        """
        setting = self.by_key.get(key)
        return setting.resolved() if setting is not None and setting.value else None

    def text(self, key: str) -> str | None:
        """Return the value of a key; None if it is not set."""
        setting = self.get(key)
        return None if setting is None else setting.value

    def items(self, key: str) -> tuple[str, ...]:
        """Return the values of a comma-separated list."""
        return tuple(filter(None, (item.strip() for item in (self.text(key) or "").split(","))))

    def choice(self, key: str, choices: Collection[str], default: str) -> str:
        """Return one of the choices, which are upper case; values may have any case.

        Raises:
            UsageError: the value is not one of the choices.
        """
        setting = self.get(key)
        if setting is None:
            return default
        value = setting.value.upper()
        if value not in choices:
            raise setting.expected(" or ".join(choices))
        return value

    def whole_number(self, key: str, most: int = MOST_LONG) -> int | None:
        """Return a number from 0 to `most`; None if it is not set.

        Raises:
            UsageError: the value is not such a number.
        """
        setting = self.get(key)
        if setting is None:
            return None
        number = whole_number(setting.value, most) if setting.value.isascii() else None
        if number is None:
            limit = f" up to {most}" if setting.value.isdigit() else ""
            raise setting.expected(f"a whole number{limit}")
        return number

    def missing(self, key: str, why: str) -> UsageError:
        """Return the error of a missing required key."""
        return UsageError(f"{key} is not set: {why}")


def whole_number(text: str, most: int) -> int | None:
    """Parse a decimal number from 0 to `most`; None for any other text.

    Python's `int` rejects texts of more than some thousand digits with its own error.
    """
    digits = text.lstrip("0") or text[-1:]
    if not text.isdecimal() or len(digits) > len(str(most)):
        return None
    number = int(digits)
    return number if number <= most else None


COMMAND_TIMEOUT_S = 10.0
"""Maximum time in seconds of a command that writes a secret."""


def shown_reference(value: str) -> str:
    """Return a reference for people; of a command, whose arguments may be secret, its program."""
    kind, _, rest = value.partition(":")
    return f"cmd:{rest.split()[0]} …" if kind == "cmd" and len(rest.split()) > 1 else value


def read_secret(reference: str, where: str) -> str:
    """Return the secret that a reference names, without the line end after it.

    Args:
        reference: a text of which `is_reference` is true.
        where: setting and its origin, to start messages with, which never have the secret.

    Raises:
        InputError: a file cannot be read.
        KgroupError: a command cannot be run, fails, or takes too long.
        UsageError: the reference is invalid, a variable is not set, or there is no secret.
    """
    kind, _, rest = "".join(reference).partition(":")
    if not rest.strip():
        raise UsageError(f"{where}: expected env:NAME, file:PATH or cmd:COMMAND, found {kind}:")
    where = f"{where}: {shown_reference(f'{kind}:{rest}')}"
    if kind == "env":
        if not (text := os.environ.get(rest.strip())):
            raise UsageError(f"{where}: expected a secret in this environment variable, found none")
    else:
        if kind == "file":
            data = read_user_file(user_path(rest, where), where)
        else:
            data = _command_output(rest, where)
        try:
            text = data.decode().rstrip("\r\n")
        except UnicodeDecodeError:
            raise UsageError(f"{where}: expected UTF-8 text, found other bytes") from None
    if not text.strip():
        raise UsageError(f"{where}: expected a secret, found nothing")
    keep_secret(text)
    return text


@cache
def _command_output(command: str, where: str) -> bytes:
    """Return what a command writes; it runs once in a process, as it may ask the user."""
    import shlex
    from select import select
    from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired
    from time import monotonic

    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"{where}: expected a command line: {error}") from None
    end = monotonic() + COMMAND_TIMEOUT_S
    late = KgroupError(f"{where}: the command has not ended after {COMMAND_TIMEOUT_S:g} s")
    data = b""
    try:
        with Popen(words, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL) as process:
            try:
                assert process.stdout is not None
                while len(data) <= LARGEST_FILE:
                    if not select([process.stdout], [], [], max(end - monotonic(), 0))[0]:
                        raise late
                    if not (block := os.read(process.stdout.fileno(), 1 << 16)):
                        break
                    data += block
                else:
                    raise InputError(f"{where}: expected at most {LARGEST_FILE} bytes, found more")
                status = process.wait(max(end - monotonic(), 0))
            except TimeoutExpired:
                raise late from None
            finally:
                process.kill()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "its name contains NUL"
        raise KgroupError(f"{where}: cannot run the command: {reason}") from None
    if status != 0:
        how = f"exit status {status}" if status > 0 else f"signal {-status}"
        raise KgroupError(
            f"{where}: the command failed with {how}; run it in a shell to see its messages"
        )
    return data
