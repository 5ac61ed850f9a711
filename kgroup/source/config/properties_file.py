r"""Java's `.properties` files, as `java.util.Properties.load(InputStream)` reads them.

bytes     ISO-8859-1; other characters are written as \uXXXX, in UTF-16 units
line      ends with LF, CR, CR LF or the file; an odd number of backslashes at its end joins the
          next line to it, whose leading blanks are removed; blank = space, tab, form feed
comment   a line that starts with # or ! after blanks; it cannot be continued
entry     key [blanks] [= or :] [blanks] value; the key ends at the first blank, = or : without
          a backslash before it
escape    \t \n \r \f \uXXXX; any other character after a backslash is literal
duplicate the last entry of a key counts
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from kgroup.errors import UsageError
from kgroup.source.config.client_setting import ClientSetting
from kgroup.source.config.user_file import read_user_file

_BLANKS = " \t\f"
_LINE_END = re.compile(r"\r\n|\r|\n")
_ENTRY = re.compile(r"((?:[^\\ \t\f=:]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u.{0,4}|.?)", re.DOTALL)
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(path: Path, origin: str = "") -> list[ClientSetting]:
    """Read a file.

    Args:
        path: the file.
        origin: prefix of ``FILE:LINE``, if another file names this one.

    Raises:
        InputError: the file cannot be read, or is too large.
        UsageError: the file has a malformed escape, or is not text.
    """
    data = read_user_file(path, f"{origin}{path}")
    if b"\0" in data:
        line = data.count(b"\n", 0, data.index(b"\0")) + 1
        raise UsageError(
            f"{origin}{path}:{line}: expected text, found a NUL byte; is it the right file?"
        )
    settings = []
    for line, key, value in parse_properties(data.decode("latin-1"), f"{origin}{path}"):
        settings.append(ClientSetting(key, value, f"{origin}{path}:{line}"))
    return settings


def parse_properties(text: str, name: str = "") -> Iterator[tuple[int, str, str]]:
    """Yield the first line number, the key and the value of each entry.

    Raises:
        UsageError: an escape is malformed; the message starts with `name`.
    """
    for number, line in _logical_lines(text):
        match = _ENTRY.match(line)
        assert match is not None
        try:
            yield number, _unescape(match[1]), _unescape(match[2])
        except ValueError:
            raise UsageError(
                f"{name}:{number}: expected four hexadecimal digits after \\u; "
                "write a backslash itself as \\\\"
            ) from None


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Join continued lines; skip comments and empty lines."""
    lines = enumerate(_LINE_END.split(text), 1)
    for number, line in lines:
        joined = line.lstrip(_BLANKS)
        if joined.startswith(("#", "!")) or joined in ("", "\\"):
            continue
        parts = [joined]
        while _is_continued(parts[-1]):
            _, following = next(lines, (0, ""))
            parts[-1] = parts[-1][:-1]
            parts.append(following.lstrip(_BLANKS))
        yield number, "".join(parts)


def _is_continued(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescape(text: str) -> str:
    plain = _ESCAPE.sub(_character, text)
    if plain.isascii():
        return plain
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _character(match: re.Match[str]) -> str:
    escape = match[1]
    if not escape.startswith("u"):
        return _ESCAPES.get(escape, escape)
    if not re.fullmatch("u[0-9A-Fa-f]{4}", escape):
        raise ValueError
    return chr(int(escape[1:], 16))
