"""Settings of a Kafka client, with their origin; secret values are not displayed.

Keys and values are those of Kafka's own clients (`ssl.truststore.location`, `sasl.mechanism`, …).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from kgroup.errors import UsageError
from kgroup.redaction import (
    HIDDEN,
    is_secret,
    keep_named_secrets,
    keep_secret,
    keep_userinfo,
    redact,
)

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
        value: value without surrounding blanks; a `Secret` if the key is secret.
        origin: where it was set, for people: ``client.properties:3``, ``-X``, ``profile 'prod'``.
    """

    key: str
    value: str = field(repr=False)
    origin: str

    def __post_init__(self) -> None:
        value = self.value.strip(JAVA_BLANK)
        if is_secret(self.key):
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

    def expected(self, what: str) -> UsageError:
        """Return the error of an invalid value."""
        shown = repr(redact(self.value)[:_SHOWN]) + ("…" if len(self.value) > _SHOWN else "")
        value = "something else" if isinstance(self.value, Secret) else shown
        return UsageError(f"{self.where}: expected {what}, found {value}")


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
        """Return the setting of a key; None if it is not set."""
        setting = self.by_key.get(key)
        return setting if setting is not None and setting.value else None

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
