"""White and black lists of topics, as the ZooKeeper consumer evaluates them.

Source: kafka.consumer.TopicFilter and WildcardTopicCount of 0.8.2.2. The expressions have Java
syntax. RE2 evaluates them in linear time. Syntax that RE2 lacks (such as lookahead) is left to
Python's engine, which backtracks as Java's does. Expressions with another meaning in either engine
are rejected: no result is better than a wrong one.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterable

from kgroup.model.offsets_partition import OFFSETS_TOPIC
from kgroup.model.pattern import Pattern, parse_regex
from kgroup.model.zookeeper import RegistrationNode, SubscriptionPattern

INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC})
"""Topics that consumers since 0.8.2 exclude from lists, unless
``exclude.internal.topics=false``.
"""

_QUOTES = "\"'"
_ESCAPE = re.compile(r"\\.", re.DOTALL)
_NESTED = re.compile(r"\[[^\]]*(?:&&|\[)")
"""Nested character classes, which the other engines read as single characters."""
_JAVA_CLASS = re.compile(
    r"\\p\{(?:Is|In|java|Lower|Upper|ASCII|Alpha|Digit|Alnum|Punct|Graph|Print|Blank|Cntrl|XDigit|"
    r"Space)|\\[hHRXvVZ]"
)


def filter_regex(text: str) -> str:
    """Return the expression of a list: commas become ``|``, blanks and outer quotes are removed."""
    return text.strip().replace(",", "|").replace(" ", "").strip(_QUOTES)


def parse_filter(text: str) -> Pattern:
    """Compile the expression of a list.

    Raises:
        ValueError: the expression is invalid, or has syntax that only Java supports.
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
            warnings.simplefilter("ignore", FutureWarning)  # "||" in a class is literal, as in Java
            return re.compile(regex, re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{regex!r} is no regular expression: {error}") from None


def subscribed_topics(
    registration: RegistrationNode, topics: Iterable[str], owned: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the topics that a consumer subscribes to, sorted; lists are matched against `topics`.

    Args:
        registration: registration node of the consumer.
        topics: existing topics.
        owned: topics of which the group owns partitions. No node says whether consumers exclude
            internal topics from their lists; consumers that own such a topic do not.

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
