"""Ways to damage what people write: bytes and words of a text, and values of a JSON tree."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

_MOST_REPEATS = 20_000
_WORDS: Sequence[bytes] = (
    *(b"\0", b"\\u0000", b"\\uD800", b"\\u12", b"\\", b"\r", b"\r\n\t", b"\x85", b"\xff", b"\xc3"),
    *(b"~nobody-of-this-name/x", b"~", b"/dev/null", b"/", b"..", b"a" * 300, b"%00", b"[::1"),
    *(b"://", b"[", b"{", b"a.", b'"a".', b"[[", b"{a=", b'{"a":', b'"', b"'", b'"""', b"="),
    *(b"9" * 25, b"9" * 5000, b"0" * 30, b"-1", b"1e999", b"NaN", b"0x" + b"f" * 40, b"1_0"),
    *("٣".encode(), "é".encode(), "\u2028".encode(), "\U0001f600".encode(), b"\xed\xa0\x80"),
    *(
        b"true",
        b"null",
        b"*1*a",
        b"!2!b.*",
        b"-",
        b"/*",
        b"//",
        b"\n",
        b" ",
        b"\t",
        b":",
        b";",
        b"#",
    ),
)
_VALUES: Sequence[Any] = (
    *(None, True, False, 0, -1, 1 << 31, (1 << 63) - 1, -(1 << 63), 1 << 63, 1 << 64, 1.5, 1e300),
    *("", "a", "orders", "consumer", "Stable", "\0", "\ud800", "é" * 200, "9" * 5000, "-1"),
    *("[" * 300, [], {}, [[]], {"a": []}, [None], ["a", 0], {"": None}),
)


def changed_bytes(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """Change a text in one to four places; `others` are to be spliced with."""
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        data = random.choice(_CHANGES)(data, others, random)
    return data


def changed_tree(tree: Any, random: Random) -> Any:
    """Change one to four values somewhere in a tree of JSON; give another tree."""
    tree = copy.deepcopy(tree)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        _change_value(tree, random)
    return tree


def _change_value(tree: Any, random: Random) -> None:
    node: Any = tree
    while True:
        if not isinstance(node, dict | list) or not node:
            return
        key: Any = random.choice(list(node) if isinstance(node, dict) else range(len(node)))
        if not isinstance(node[key], dict | list) or not node[key] or random.random() < 0.2:
            break
        node = node[key]
    way = random.randrange(7)
    if way == 0:
        del node[key]
    elif way == 1 and isinstance(node, list):
        node.insert(key, copy.deepcopy(node[key]))
    elif way == 2:
        other: Any = random.choice(list(node) if isinstance(node, dict) else range(len(node)))
        node[key], node[other] = node[other], node[key]
    elif way == 3 and isinstance(node, dict):
        node[random.choice(("", "x", "9" * 5000, "\0", key.upper()))] = node.pop(key)
    elif way == 4:
        for _ in range(random.choice((1, 20, 80))):
            node[key] = [node[key]] if random.random() < 0.5 else {"a": node[key]}
    elif way == 5 and isinstance(node[key], str):
        text = node[key].encode("utf-8", "surrogatepass")
        node[key] = changed_bytes(text, _WORDS, random).decode("utf-8", "replace")
    else:
        node[key] = copy.deepcopy(random.choice(_VALUES))


def _at(data: bytes, random: Random) -> int:
    return random.randint(0, len(data))


def _span(data: bytes, random: Random) -> tuple[int, int]:
    start = _at(data, random)
    return start, min(len(data), start + random.choice((1, 2, 8, 64, len(data))))


def _flip(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    start = _at(data, random)
    return data[:start] + bytes([random.randrange(256)]) + data[start + 1 :]


def _insert(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    start = _at(data, random)
    return data[:start] + random.choice(_WORDS) + data[start:]


def _remove(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    start, end = _span(data, random)
    return data[:start] + data[end:]


def _double(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    start, end = _span(data, random)
    where = _at(data, random)
    return data[:where] + data[start:end] + data[where:]


def _repeat(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    start, end = _span(data, random)
    word = random.choice((*_WORDS, data[start:end] or b"x"))
    count = random.choice((2, 30, 1200, _MOST_REPEATS))
    return data[:start] + word * min(count, 1 + (1 << 17) // len(word)) + data[end:]


def _splice(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    other = random.choice(others)
    start, end = _span(other, random)
    where = _at(data, random)
    return data[:where] + other[start:end] + data[where:]


def _number(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    matches = list(re.finditer(rb"\d+", data))
    if not matches:
        return data
    match = random.choice(matches)
    number = random.choice((b"0", b"-1", b"65536", b"2147483648", b"9" * 19, b"9" * 5000, b"1.5"))
    return data[: match.start()] + number + data[match.end() :]


def _word(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """Put a word in the place of another: what stands between blanks and signs."""
    matches = list(re.finditer(rb"[^\s=:;,\"'\[\]{}]+", data))
    if not matches:
        return data
    match = random.choice(matches)
    word = random.choice((*_WORDS, random.choice(matches)[0]))
    return data[: match.start()] + word + data[match.end() :]


_CHANGES: Sequence[Callable[[bytes, Sequence[bytes], Random], bytes]] = (
    *(_flip, _insert, _remove, _double, _repeat, _splice, _number, _word, _word),
)


def as_json(tree: Any) -> bytes:
    """Write a tree; what was no text in UTF-8 is escaped."""
    return json.dumps(tree).encode()
