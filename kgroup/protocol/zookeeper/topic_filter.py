"""White and black lists of topics, as the ZooKeeper consumer evaluates them.

Source: kafka.consumer.TopicFilter and WildcardTopicCount of 0.8.2.2. The expressions are Java's.
RE2 runs them, in time proportional to what it reads; what RE2 does not have (looking ahead, say)
Python's engine runs, which backtracks as Java's does. What means something else in either of them
is refused: unknown is better than wrong.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterable

from kgroup.model.offsets_partition import OFFSETS_TOPIC
from kgroup.model.pattern import Pattern, parse_regex
from kgroup.model.zookeeper import RegistrationNode, SubscriptionPattern

INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC})
"""Left out of every list by consumers since 0.8.2, but for ``exclude.internal.topics=false``."""

_QUOTES = "\"'"
_ESCAPE = re.compile(r"\\.", re.DOTALL)
_NESTED = re.compile(r"\[[^\]]*(?:&&|\[)")
"""Classes in classes, which the other engines take for single characters."""
_JAVA_CLASS = re.compile(
    r"\\p\{(?:Is|In|java|Lower|Upper|ASCII|Alpha|Digit|Alnum|Punct|Graph|Print|Blank|Cntrl|XDigit|"
    r"Space)|\\[hHRXvVZ]"
)


def filter_regex(text: str) -> str:
    """Return the expression that a list is: commas become ``|``, blanks and outer quotes go."""
    return text.strip().replace(",", "|").replace(" ", "").strip(_QUOTES)


def parse_filter(text: str) -> Pattern:
    """Compile the expression of a list.

    Raises:
        ValueError: it is none, or one that only Java understands.
    """
    regex = filter_regex(text)
    if _NESTED.search(_ESCAPE.sub("", regex)) or _JAVA_CLASS.search(regex):
        raise ValueError(f"{regex!r} has syntax of regular expressions that only Java knows")
    try:
        return parse_regex(regex)
    except ValueError:
        pass
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of "||" in a class: plain, as in Java
            return re.compile(regex, re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{regex!r} is no regular expression: {error}") from None


def subscribed_topics(
    registration: RegistrationNode, topics: Iterable[str], owned: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the topics that a consumer reads, sorted: of a list those that it allows.

    Args:
        registration: of the consumer.
        topics: those that exist.
        owned: topics of which the group owns partitions. No node tells whether consumers leave
            internal topics out of their lists: those that own them do not.

    Raises:
        ValueError: the list's expression cannot be evaluated.
    """
    if registration.pattern is SubscriptionPattern.STATIC or not registration.subscription:
        return tuple(sorted(registration.subscription))
    pattern = parse_filter(next(iter(registration.subscription)))
    wanted = registration.pattern is SubscriptionPattern.WHITE_LIST
    return tuple(
        sorted(
            topic
            for topic in topics
            if topic not in INTERNAL_TOPICS or topic in owned
            if (pattern.fullmatch(topic) is not None) is wanted
        )
    )
