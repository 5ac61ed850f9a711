"""TOML that people write, within limits."""

from __future__ import annotations

import re
import tomllib
from typing import Any

_MOST_LEVELS = 20
_MOST_DIGITS = 1000
_TOKEN = re.compile(
    r"""
      \"{3} (?:[^\\]|\\.?)*? (?:\"{3}|\Z) | '{3} .*? (?:'{3}|\Z)
    | " (?:[^"\\\n]|\\.)*+ "? | '[^'\n]*+'? | \#[^\n]*
    | [][{}.=,\n] | (?<![0-9A-Za-z_-])[+-]?[0-9][0-9_]{1000,}
    """,
    re.VERBOSE | re.DOTALL,
)
"""What counts levels in TOML, and the texts and comments in which nothing does. Each begins where
it can end, so that a text without its end is not looked through again and again."""


class TomlLimitError(ValueError):
    """TOML is beyond a limit: says what was expected and found, and in which line."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


def parse_toml(text: str) -> dict[str, Any]:
    """Parse a text.

    Raises:
        TomlLimitError: it has what tomllib takes quadratic memory for, or more calls or digits than
            Python allows: a key of too many parts, too many brackets within each other, a long
            number.
        tomllib.TOMLDecodeError: it is no TOML.
    """
    line, depth, dots = 1, 0, 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token[0] in "+-0123456789":
            raise TomlLimitError(
                line, f"expected numbers of at most {_MOST_DIGITS} digits, found a longer"
            )
        line += token.count("\n")
        depth += (token in ("[", "{")) - (token in ("]", "}") and depth > 0)
        dots = dots + 1 if token == "." else dots if token[0] in "\"'" else 0
        if max(depth, dots + 1) > _MOST_LEVELS:
            raise TomlLimitError(
                line, f"expected at most {_MOST_LEVELS} levels of tables and lists, found more"
            )
    return tomllib.loads(text)
