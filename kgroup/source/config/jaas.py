r"""The value of `sasl.jaas.config`, read as Kafka does (`JaasConfig`, on Java's StreamTokenizer).

config    module flag (name = value)* ;
word      begins with a letter, _ or $, or a character above 0x9F; goes on with digits . - too
quoted    " or ' to the same quote or the end of the line; \a \b \f \n \r \t \v \0 … \377
          are escapes, any other character after a backslash stands for itself
number    what begins with a digit, . or -; it is never a value unless it is quoted
comment   // and / to the end of the line, /* to */
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kgroup.redaction import is_secret, keep_secret
from kgroup.source.config.client_setting import Secret, Setting

_FLAGS = ("required", "requisite", "sufficient", "optional")
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}

_TOKEN = re.compile(
    r"""
      (?P<skip> [\x00-\x20]+ | //[^\r\n]* | /\*.*?(?:\*/|\Z) | /(?:.[^\r\n]*)? )
    | (?P<number> -?(?:\d+\.?\d*|\.\d*) )
    | (?P<word> [A-Za-z_$\u00a0-\U0010ffff][-.0-9A-Za-z_$\u00a0-\U0010ffff]* )
    | (?P<quoted> (?P<quote>["'])(?P<inner>(?:\\.|(?!(?P=quote))[^\\\r\n])*)(?:(?P=quote)|\\?\Z|) )
    | (?P<sign> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_QUOTED_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class LoginModule:
    """One entry: which class logs in, and its options, whose values are all kept secret."""

    name: str
    options: Mapping[str, Secret]

    @property
    def short_name(self) -> str:
        """The class without its package."""
        return self.name.rpartition(".")[2]


def parse_jaas(setting: Setting) -> LoginModule:
    """Read the login module of `sasl.jaas.config`.

    Raises:
        UsageError: Kafka would not read it either; the text is never shown, only the position.
    """
    tokens = _tokens(setting.value)
    position, kind, text = next(tokens)
    if kind not in ("word", "quoted") or not text:
        raise setting.expected(f"the class of a login module {_at(position)}")
    name = text
    position, kind, text = next(tokens)
    if text.lower() not in _FLAGS or kind not in ("word", "quoted"):
        raise setting.expected(f"{', '.join(_FLAGS)} {_at(position)}, after the login module")
    options = {}
    while (token := next(tokens))[1:] != ("sign", ";"):
        position, kind, key = token
        if kind not in ("word", "quoted"):
            raise setting.expected(f"the name of an option, or a semicolon, {_at(position)}")
        position, kind, text = next(tokens)
        if (kind, text) != ("sign", "="):
            raise setting.expected(f"= {_at(position)}, after the name of an option")
        position, kind, text = next(tokens)
        if kind not in ("word", "quoted"):
            raise setting.expected(f'a value in quotes {_at(position)} (as in name="value")')
        options[key] = Secret(text)
        if is_secret(key):
            keep_secret(text)
    position, kind, _ = next(tokens)
    if kind != "end":
        raise setting.expected(f"nothing more {_at(position)}: Kafka takes one login module")
    return LoginModule(name, MappingProxyType(options))


def _at(position: int) -> str:
    return f"at character {position + 1}"


def _tokens(text: str) -> Iterator[tuple[int, str, str]]:
    """Give position, kind (word, quoted, number, sign, end) and text; then the end, for ever."""
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if match["skip"] is not None:
            continue
        if match["quoted"] is not None:
            yield match.start(), "quoted", _QUOTED_ESCAPE.sub(_character, match["inner"])
        else:
            assert kind is not None
            yield match.start(), kind, match[0]
    while True:
        yield len(text), "end", ""


def _character(match: re.Match[str]) -> str:
    escape = match[1]
    if escape[0] in "01234567":
        return chr(int(escape, 8))
    return _ESCAPES.get(escape, escape)
