"""A command line that somebody is typing in a shell, up to the cursor."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NEEDS_BACKSLASH = re.compile(r"[^\w@%+=:,./-]")
_NEEDS_BACKSLASH_IN_QUOTES = re.compile(r'["$`\\]')


@dataclass(frozen=True, slots=True)
class TypedLine:
    """What was typed, without quotes and backslashes.

    Attributes:
        words: before the one with the cursor; the first is the program.
        current: the word with the cursor, as far as the cursor; may be empty.
        kept: the beginning of `current` that bash leaves as it is: it takes characters like : and =
            for ends of words, and replaces only what follows the last of them.
        quote: the quote that is open at the cursor, or "".
    """

    words: tuple[str, ...]
    current: str
    kept: str
    quote: str

    def replacement(self, word: str) -> str | None:
        """Write what bash is to put behind what it keeps, quoted; None where it cannot follow."""
        if not word.startswith(self.kept):
            return None
        rest = word[len(self.kept) :]
        if self.quote == "'":
            return rest.replace("'", "'\\''")
        if self.quote:
            return _NEEDS_BACKSLASH_IN_QUOTES.sub(r"\\\g<0>", rest)
        return _NEEDS_BACKSLASH.sub(r"\\\g<0>", rest)


def read_bash(line: str, breaks: str) -> TypedLine:
    """Read a line by bash's rules of quoting.

    Args:
        line: up to the cursor.
        breaks: characters at which readline ends words: ``$COMP_WORDBREAKS``.
    """
    words: list[str] = []
    word = kept = kept_before = quote = ""
    is_word = is_escaped = False
    for char in line:
        if is_escaped:
            literal = quote and char not in '"$`\\'  # within quotes only these lose the backslash
            word += f"\\{char}" if literal else char
            is_escaped = False
        elif char == "\\" and quote != "'":
            is_word = is_escaped = True
        elif char == quote:
            quote, kept = "", kept_before
        elif quote:
            word += char
        elif char in "'\"":
            quote, is_word = char, True
            kept_before, kept = kept, word
        elif char.isspace():
            if is_word:
                words.append(word)
            word = kept = ""
            is_word = False
        else:
            word += char
            is_word = True
            if char in breaks:
                kept = word
    return TypedLine(tuple(words), word, kept, quote)


def read_fish_word(word: str) -> str:
    """Take quotes and backslashes from a word in fish, where those within single quotes count."""
    text = quote = ""
    is_escaped = False
    for char in word:
        if is_escaped:
            escapes = {"'": "'\\", '"': '"$\\'}.get(quote)
            text += char if escapes is None or char in escapes else f"\\{char}"
            is_escaped = False
        elif char == "\\":
            is_escaped = True
        elif char == quote:
            quote = ""
        elif not quote and char in "'\"":
            quote = char
        else:
            text += char
    return text
