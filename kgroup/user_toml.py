"""Parse users' TOML files within limits, and find where their tables begin."""

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
"""Tokens that change the nesting level, and the strings and comments in which none count. Each
pattern also matches an unterminated token, so that it is not scanned again and again.
"""


class TomlLimitError(ValueError):
    """TOML exceeds a limit; the message has the expected and found values and the line."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


def parse_toml(text: str) -> dict[str, Any]:
    """Parse a TOML text.

    Raises:
        TomlLimitError: the text would take tomllib quadratic memory, or exceed Python's limits of
            recursion or digits: a key of too many parts, too deep nesting, or a long number.
        tomllib.TOMLDecodeError: the text is not TOML.
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


def table_starts(text: str) -> list[tuple[int, tuple[str, ...]]]:
    """Return where each table of a TOML text begins, and the keys in its header.

    Comment lines directly above the header belong to the table.

    Args:
        text: text that `parse_toml` accepts, with LF line ends.
    """
    starts, depth = [], 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        start = text.rfind("\n", 0, match.start()) + 1
        if token == "[" and depth == 0 and not text[start : match.start()].strip():
            header, keys = tomllib.loads(text[start:].partition("\n")[0]), []
            while isinstance(header, dict) and header:
                ((key, header),) = header.items()
                keys.append(key)
            while text[(before := text.rfind("\n", 0, max(start - 1, 0)) + 1) : start][:1] == "#":
                start = before
            starts.append((start, tuple(keys)))
        depth += (token in ("[", "{")) - (token in ("]", "}") and depth > 0)
    return starts
