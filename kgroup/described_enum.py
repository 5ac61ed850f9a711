"""Enums whose members have a word for scripts and a sentence for people."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class DescribedEnum(StrEnum):
    """An enum of output words that scripts may rely on; `sentence` explains each to people."""

    _value_: str
    sentence: str

    def __new__(cls, word: str, sentence: str = "") -> Self:
        """Create a member; its word alone selects it: `GroupType("classic")`."""
        member = str.__new__(cls, word)
        member._value_ = word
        member.sentence = sentence
        return member
