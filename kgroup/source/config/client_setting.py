"""Settings of a Kafka client: each has its origin, and secret ones do not show.

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
"""What String.trim() takes away, and Kafka's ConfigDef with it from every value."""

_SHOWN = 200
"""Characters of a wrong value that a message shows."""


class Secret(str):
    """A text that is used as it is, and hidden wherever it would be shown.

    It is a `str` since kafka-python and ssl want one: joining and encoding give the real text;
    `str()`, `repr()`, formatting and logging do not.
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
        key: as Kafka's clients call it.
        value: without blanks around it; a `Secret` where the key says so.
        origin: where it came from, for people: ``client.properties:3``, ``-X``, ``profile 'prod'``.
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
        """Key and origin, to begin a message with."""
        return f"{self.key} ({self.origin})"

    def expected(self, what: str) -> UsageError:
        """Make the error of a value that is not what it should be."""
        shown = repr(redact(self.value)[:_SHOWN]) + ("…" if len(self.value) > _SHOWN else "")
        found = "something else" if isinstance(self.value, Secret) else shown
        return UsageError(f"{self.where}: expected {what}, found {found}")


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """All settings by key; a key with an empty value counts as not set."""

    by_key: Mapping[str, ClientSetting]

    @classmethod
    def merged(cls, *layers: Iterable[ClientSetting]) -> ClientSettings:
        """Merge layers, the weakest first."""
        return cls({setting.key: setting for layer in layers for setting in layer})

    def below(self, prefix: str) -> ClientSettings:
        """Return the settings whose keys begin with a prefix, under the rest of their keys."""
        return ClientSettings(
            {
                key.removeprefix(prefix): setting
                for key, setting in self.by_key.items()
                if key.startswith(prefix)
            }
        )

    def get(self, key: str) -> ClientSetting | None:
        """Return the setting of a key, None where it is not set."""
        setting = self.by_key.get(key)
        return setting if setting is not None and setting.value else None

    def text(self, key: str) -> str | None:
        """Return the value of a key, None where it is not set."""
        setting = self.get(key)
        return None if setting is None else setting.value

    def items(self, key: str) -> tuple[str, ...]:
        """Return the values of a list separated by commas."""
        return tuple(filter(None, (item.strip() for item in (self.text(key) or "").split(","))))

    def choice(self, key: str, choices: Collection[str], default: str) -> str:
        """Give one of the choices, which are in capitals and may be written in any case.

        Raises:
            UsageError: it is none of them.
        """
        setting = self.get(key)
        if setting is None:
            return default
        value = setting.value.upper()
        if value not in choices:
            raise setting.expected(" or ".join(choices))
        return value

    def whole_number(self, key: str, most: int = MOST_LONG) -> int | None:
        """Return a number from 0 to `most`, None where it is not set.

        Raises:
            UsageError: it is no such number.
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
        """Make the error of a key that must be set."""
        return UsageError(f"{key} is not set: {why}")


def whole_number(text: str, most: int) -> int | None:
    """Read a decimal number from 0 to `most`; None for any other text.

    Python's own `int` refuses texts of more than some thousand digits by an error of its own.
    """
    digits = text.lstrip("0") or text[-1:]
    if not text.isdecimal() or len(digits) > len(str(most)):
        return None
    number = int(digits)
    return number if number <= most else None
