"""Words that stand for something in output: each with a sentence that says what it means."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Word(StrEnum):
    """A word that is promised to scripts, with its `sentence` for people."""

    _value_: str
    sentence: str

    def __new__(cls, word: str, sentence: str = "") -> Self:
        """Make a member; the word alone finds one: `GroupType("classic")`."""
        member = str.__new__(cls, word)
        member._value_ = word
        member.sentence = sentence
        return member
