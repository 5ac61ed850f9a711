"""Messages as trees of numbers, texts and lists: change a node, and lengths around it come right.

A tree is read after Kafka's schemas. What they leave as bytes is read too where it is known what it
is: what members of classic groups say and are given, and the user data of assignors in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial

from kgroup.protocol.message.primitives import unsigned_varint
from kgroup.protocol.message.schema import FIXED, Field, fields, flexible, versions
from kgroup.protocol.record.coordinator_record import KEY_TYPES
from tests.columnar.log_writer import varint


def _unsigned(number: int) -> bytes:
    number &= 0xFFFFFFFF
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


PREFIXES: Mapping[str, Callable[[int], bytes]] = {
    "": lambda number: b"",
    "int16": lambda number: (number % (1 << 16)).to_bytes(2, "big"),
    "int32": lambda number: (number % (1 << 32)).to_bytes(4, "big"),
    "compact": lambda number: _unsigned(number + 1),
    "unsigned": _unsigned,
    "zigzag": varint,
}
"""How a length or a count, -1 for null, is written in front of what it measures."""


@dataclass(frozen=True)
class Node:
    """A part of a message.

    Attributes:
        content: its bytes behind the prefix.
        prefix: how these are measured, one of `PREFIXES`.
        parts: what the content consists of; none in a number or a text.
        is_list: whether parts are counted, instead of bytes.
        claim: what the prefix says instead of what is right.
    """

    content: bytes
    prefix: str = ""
    parts: tuple[Node, ...] = ()
    is_list: bool = False
    claim: int | None = None

    @cached_property
    def data(self) -> bytes:
        """Its bytes."""
        size = len(self.parts if self.is_list else self.content)
        claim = size if self.claim is None else self.claim
        return PREFIXES[self.prefix](claim) + self.content

    @cached_property
    def weight(self) -> int:
        """How many nodes there are in it, itself one of them."""
        return 1 + sum(part.weight for part in self.parts)

    def with_parts(self, parts: tuple[Node, ...]) -> Node:
        return Node(_joined(parts), self.prefix, parts, self.is_list)


def _joined(parts: Sequence[Node]) -> bytes:
    return b"".join([part.data for part in parts])


def number(data: bytes) -> Node:
    """A number in its bytes."""
    return Node(data)


def text(prefix: str, content: bytes | None) -> Node:
    """Bytes behind their length."""
    return Node(b"", prefix, claim=-1) if content is None else Node(content, prefix)


def group(parts: Sequence[Node], prefix: str = "") -> Node:
    """Parts one after the other, behind the length of all if there is a prefix."""
    return Node(_joined(parts), prefix, tuple(parts))


def listed(prefix: str, parts: Sequence[Node] | None) -> Node:
    """Parts behind their count."""
    if parts is None:
        return Node(b"", prefix, is_list=True, claim=-1)
    return Node(_joined(parts), prefix, tuple(parts), is_list=True)


@lru_cache(maxsize=1 << 14)
def key_tree(key: bytes) -> Node:
    """The tree of a record's key; what is no known one is one node."""
    name = KEY_TYPES.get(int.from_bytes(key[:2], "big"))
    if name is None:
        return number(key)
    schemas = [f"{folder}/{name}Key" for folder in _folders(f"{name}Key")]
    return _first(key, [partial(_numbered, schema) for schema in schemas])


@lru_cache(maxsize=1 << 14)
def value_tree(key: bytes | None, value: bytes) -> Node:
    """The tree of the value behind a key; what is no known one is one node."""
    name = KEY_TYPES.get(int.from_bytes((key or b"")[:2], "big"))
    if name is None:
        return number(value)
    schemas = [f"{folder}/{name}Value" for folder in _folders(f"{name}Value")]
    return _first(value, [partial(_numbered, schema) for schema in schemas])


def _folders(name: str) -> list[str]:
    """Where there is a schema of that name: several where early-access releases had another."""
    found = []
    for folder in ("coordinator", "coordinator_3_7", "coordinator_4_0"):
        with suppress(FileNotFoundError):
            versions(f"{folder}/{name}")
            found.append(folder)
    return found


_Read = Callable[[bytes], Node]
"""Reads a tree that takes all bytes; ValueError or IndexError where they do not fit."""


def _first(data: bytes, reads: Iterable[_Read]) -> Node:
    """What the first that can read these bytes makes of them, else one node."""
    for read in reads:
        with suppress(ValueError, IndexError):
            tree = read(data)
            if tree.data == data:
                return tree
    return number(data)


def _numbered(schema: str, data: bytes) -> Node:
    """A message behind a key's type or a version, int16; read as the newest that there is."""
    version = 0 if schema.endswith("Key") else int.from_bytes(data[:2], "big", signed=True)
    known = versions(schema)
    version = min(max(version, known[0]), known[-1])
    return group([number(data[:2]), *_Reader(data, 2).message(schema, version)])


def _plain(schema: str, version: int, data: bytes) -> Node:
    return group(_Reader(data).message(schema, version))


def _streams_subscription(data: bytes) -> Node:
    return _plain("member_metadata/SubscriptionInfoData", int.from_bytes(data[:4], "big"), data)


def _streams_assignment(data: bytes) -> Node:
    """See `kgroup.protocol.record.consumer_protocol` for the layout."""
    version = int.from_bytes(data[:4], "big")
    name = (_field("name", "int16", array=True),) if version >= 10 else ()
    task = (_field("group", "int32"), _field("partition", "int32"), *name)
    topic = _field("topic", "string" if version < 5 else "int32")
    partitions = _list("partitions", topic, _field("partition", "int32"))
    host = (_field("host", "string"), _field("port", "int32"), partitions)
    topics = _list("topics", _field("index", "int32"), _field("topic", "string"))
    every = (
        (1, _field("version", "int32")),
        (3, _field("supported", "int32")),
        (1, _list("active", *task)),
        (1, _list("standby", *task, _list("of", _field("topic", "string"), task[1]))),
        (5, topics),
        (2, _list("hosts", *host)),
        (6, _list("standbyHosts", *host)),
        (4, _field("error", "int32")),
        (7, _field("next", "int64")),
    )
    return group(_Reader(data).struct([field for since, field in every if version >= since]))


def _field(name: str, kind: str, *, array: bool = False, members: Sequence[Field] = ()) -> Field:
    return Field(name, kind, array, False, False, None, None, tuple(members) or None)


def _list(name: str, *members: Field) -> Field:
    return _field(name, "struct", array=True, members=members)


_CONSUMER, _CONNECT = "consumer_protocol/ConsumerProtocol", "member_metadata/Connect"
_SUBSCRIPTION = partial(_numbered, f"{_CONSUMER}Subscription")
_NESTED: Mapping[str, Sequence[_Read]] = {
    "subscription": (_SUBSCRIPTION, partial(_numbered, f"{_CONNECT}Metadata")),
    "assignment": (
        partial(_numbered, f"{_CONSUMER}Assignment"),
        partial(_numbered, f"{_CONNECT}Assignment"),
    ),
    "metadata": (_SUBSCRIPTION,),
    "allocation": (partial(_numbered, f"{_CONNECT}Assignment"),),
    "userData": (
        partial(_plain, "member_metadata/StickyUserData", 1),
        partial(_plain, "member_metadata/StickyUserData", 0),
        partial(_plain, "member_metadata/CooperativeStickyUserData", 0),
        _streams_subscription,
        _streams_assignment,
    ),
}
"""Names of fields of bytes -> what they may be; the first that fits counts."""


class _Reader:
    """Reads nodes one after the other."""

    def __init__(self, data: bytes, position: int = 0) -> None:
        self._data = data
        self._position = position

    def message(self, schema: str, version: int) -> list[Node]:
        """A message, and what stands behind it."""
        parts = self.struct(fields(schema, version), tags=flexible(schema, version))
        rest = self._data[self._position :]
        return [*parts, number(rest)] if rest else parts

    def struct(self, members: Sequence[Field], *, tags: bool = False) -> list[Node]:
        parts = [self._field(field) for field in members if field.tag is None]
        return [*parts, self._tagged(members)] if tags else parts

    def _tagged(self, members: Sequence[Field]) -> Node:
        known = {field.tag: field for field in members if field.tag is not None}
        nodes = []
        for _ in range(self._unsigned()):
            tag, size = self._unsigned(), self._unsigned()
            start = self._position
            field = known.get(tag)
            content = number(self._take(size)) if field is None else self._field(field)
            if self._position != start + size:
                raise ValueError
            nodes.append(group([number(PREFIXES["unsigned"](tag)), group([content], "unsigned")]))
        return listed("unsigned", nodes)

    def _field(self, field: Field) -> Node:
        if field.array:
            prefix = "compact" if field.compact else "int32"
            count = self._length(prefix)
            return listed(prefix, None if count is None else self._elements(field, count))
        if field.type == "struct" and field.nullable:
            mark = number(self._take(1))  # a varint below 128 in a tagged field
            is_there = mark.data == b"\1"
            return group([mark, self._single(field)] if is_there else [mark])
        return self._single(field)

    def _elements(self, field: Field, count: int) -> list[Node]:
        if count > len(self._data):
            raise ValueError
        return [self._single(field) for _ in range(count)]

    def _single(self, field: Field) -> Node:
        if field.fields is not None:
            return group(self.struct(field.fields, tags=field.compact))
        if field.type in FIXED:
            return number(self._take(FIXED[field.type]))
        prefix = "compact" if field.compact else "int16" if field.type == "string" else "int32"
        size = self._length(prefix)
        if size is None:
            return text(prefix, None)
        content = self._take(size)
        nested = _first(content, _NESTED.get(field.name, ()) if field.type == "bytes" else ())
        return group([nested], prefix) if nested.parts else text(prefix, content)

    def _length(self, prefix: str) -> int | None:
        if prefix == "compact":
            size = self._unsigned() - 1
        else:
            size = int.from_bytes(self._take(2 if prefix == "int16" else 4), "big", signed=True)
        return None if size < 0 else size

    def _unsigned(self) -> int:
        value, self._position = unsigned_varint(self._data, self._position, len(self._data), "")
        return value

    def _take(self, size: int) -> bytes:
        start, self._position = self._position, self._position + size
        if not 0 <= size <= len(self._data) - start:
            raise ValueError
        return self._data[start : self._position]
