"""Compile message schemas into programs that convert bytes directly to JSON text.

`json_text.run` executes them. A program follows one version of one message field by field and
writes what `orjson` makes of the reference decoder's result. It supports only common cases: at
unknown tagged fields, remaining bytes, or text that is not UTF-8 it gives up, and the reference
decoder decodes the record.

User data of classic Kafka Streams (see `consumer_protocol`) is described by fields, too. Their
types are those of `message.schema`, and these:

    text        int16 length and ASCII, which modified UTF-8 writes unchanged
    long text   int32 length and ASCII
    no name     int32 length that is 0, for a null name
    topics      names of topics by number, which are not written
    topic       one of these numbers, written as the name
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any

from kgroup.kernel import instruction as op
from kgroup.kernel import memory
from kgroup.protocol.message.schema import FIXED, Field, fields, flexible, versions
from kgroup.protocol.record.coordinator_record import KEY_TYPES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def subscription_info(version: int) -> tuple[Field, ...]:
    """Return the fields of a version; all bytes in it are text."""
    return _as_text(fields("member_metadata/SubscriptionInfoData", version))


def _as_text(members: Sequence[Field]) -> tuple[Field, ...]:
    return tuple(
        replace(
            field,
            type="long text" if field.type == "bytes" else field.type,
            fields=field.fields and _as_text(field.fields),
        )
        for field in members
    )


def assignment_info(version: int) -> tuple[Field, ...]:
    """Return the fields of a version."""
    topic = "text" if version < 5 else "topic"
    task = [_field("topicGroupId"), _field("partition")]
    if version >= 10:
        task.append(_field("namedTopology", "no name"))
    host = [_field("host", "text"), _field("port"), _topic_partitions(topic)]
    members = [
        (1, _field("version")),
        (3, _field("commonlySupportedVersion")),
        (1, _array("activeTasks", task)),
        (1, _array("standbyTasks", [*task, _topic_partitions("text")])),
        (5, _field("topics", "topics")),
        (2, _array("partitionsByHost", host)),
        (6, _array("standbyPartitionsByHost", host)),
        (4, _field("errorCode")),
        (7, _field("nextRebalanceMs", "int64")),
    ]
    return tuple(field for since, field in members if version >= since)


def _topic_partitions(topic: str) -> Field:
    return _array("topicPartitions", [_field("topic", topic), _field("partition")])


def _array(name: str, members: Sequence[Field]) -> Field:
    return replace(_field(name, "struct"), array=True, fields=tuple(members))


def _field(name: str, kind: str = "int32") -> Field:
    return Field(name, kind, False, False, False, None, None, None)


@dataclass(frozen=True, slots=True)
class Programs:
    """The compiled programs of all schemas.

    Attributes:
        code: instructions, one per row.
        texts: fixed pieces of JSON, concatenated.
        keys: by record type, the first instruction of the key's program, which begins after the
            type, or -1.
        values: by record type and version, that of the value's program, which begins after the
            version, or -1.
        parts: by part of a member and version, likewise.
    """

    code: NDArray[np.int64]
    texts: NDArray[np.uint8]
    keys: NDArray[np.int64]
    values: NDArray[np.int64]
    parts: NDArray[np.int64]


@cache
def programs() -> Programs:
    """Compile the schemas of all records except offset commits, which have columns instead."""
    import numpy as np

    writer = _Writer()
    keys = np.full(op.CONTROL + 1, -1, np.int64)
    values = np.full((op.CONTROL + 1, op.VERSIONS), -1, np.int64)
    parts = np.full((op.PARTS, op.VERSIONS), -1, np.int64)
    for number, name in KEY_TYPES.items():
        schema = f"coordinator/{name}"
        if name in ("LegacyOffsetCommit", "OffsetCommit", "ShareGroupPartitionMetadata"):
            continue
        keys[number] = writer.begin(f'{{"type":{number},"data":{{')
        writer.members(fields(f"{schema}Key", versions(f"{schema}Key")[0]))
        writer.end("}}")
        for version in versions(f"{schema}Value"):
            values[number, version] = writer.message(f"{schema}Value", version)
    keys[op.CONTROL] = writer.begin('{"type":null,"data":{"version":')
    writer.emit(op.INT, 2)
    writer.text(',"type":')
    writer.emit(op.INT, 2)
    writer.end("}}")
    for version in range(versions("coordinator/EndTxnMarker")[-1] + 1):
        values[op.CONTROL, version] = writer.message("coordinator/EndTxnMarker", version)
    for row, schema in _PART_SCHEMAS.items():
        for version in range(versions(schema)[-1] + 1):
            members = fields(schema, version)
            parts[row, version] = writer.part(members, f'"version":{version},', user_data_of=row)
    for version in versions("member_metadata/SubscriptionInfoData"):
        parts[op.STREAMS, version] = writer.part(subscription_info(version))
        parts[op.STREAMS + 1, version] = writer.part(assignment_info(version))
    *previous, generation = fields("member_metadata/StickyUserData", 1)
    # version 1 adds this field to version 0
    parts[op.STICKY, 0] = writer.part(previous, if_left=generation)
    parts[op.COOPERATIVE, 0] = writer.part(fields("member_metadata/CooperativeStickyUserData", 0))
    return Programs(
        code=np.array(writer.code, np.int64),
        texts=np.frombuffer(bytes(writer.texts) + bytes(memory.PADDING), np.uint8),
        keys=keys,
        values=values,
        parts=parts,
    )


_BASE64 = string.ascii_uppercase + string.ascii_lowercase + string.digits


@cache
def _alphabets() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    import numpy as np

    standard, url = (np.frombuffer(f"{_BASE64}{rest}".encode(), np.uint8) for rest in ("+/", "-_"))
    return standard, url


_making = Lock()
"""Without the lock, two threads could each create an object of which `cache` keeps one, and the
words could refer to the memory of the other, which is freed.
"""


def machine() -> np.ndarray[Any, np.dtype[np.void]]:
    """Return a `memory.Machine`, one element, for `json_text`; each thread needs its own."""
    import numpy as np

    with _making:
        made = programs()
        standard, url = _alphabets()
    words = np.zeros(1, memory.layout(memory.Machine))
    for name in ("code", "texts", "keys", "values", "parts"):
        words[name] = getattr(made, name).ctypes.data
    words["standard"], words["url"] = standard.ctypes.data, url.ctypes.data
    return words


class _Writer:
    """Collects instructions; consecutive texts are joined."""

    def __init__(self) -> None:
        self.code: list[list[int]] = []
        self.texts = bytearray()
        self._pending = ""

    def begin(self, text: str) -> int:
        """Begin a program; return the index of its first instruction."""
        assert not self._pending
        self._pending = text
        return len(self.code)

    def end(self, text: str) -> None:
        self.text(text)
        self.emit(op.END)

    def text(self, text: str) -> None:
        self._pending += text

    def emit(self, operation: int, a: int = 0, b: int = 0, c: int = 0) -> int:
        """Append an instruction with the pending text; return its index."""
        text, self._pending = self._pending.encode(), ""
        self.code.append([operation, a, b, c, *self.piece(text)])
        return len(self.code) - 1

    def label(self) -> int:
        """Return the index of the next instruction, after the pending text."""
        if self._pending:
            self.emit(op.TEXT)
        return len(self.code)

    def piece(self, piece: bytes) -> tuple[int, int]:
        """Add bytes to the texts; return their position and size."""
        start = self.texts.find(piece)
        if start < 0:
            start = len(self.texts)
            self.texts += piece
        return start, len(piece)

    def message(self, schema: str, version: int) -> int:
        first = self.begin(f'{{"version":{version},"data":{{')
        self.members(fields(schema, version))
        if flexible(schema, version):
            self.tags(fields(schema, version))
        self.end("}}")
        return first

    def part(
        self,
        members: Sequence[Field],
        head: str = "",
        user_data_of: int = 0,
        if_left: Field | None = None,
    ) -> int:
        """Write a part of a member, with an optional field and trailing bytes."""
        first = self.begin(f"{{{head}")
        self.members(members, user_data_of)
        if if_left is not None:
            jump = self.emit(op.IF_LEFT)
            self.text(",")
            self.members([if_left])
            self.code[jump][1] = self.label()
        self.emit(op.TRAILING, *self.piece(b',"trailing":'))
        self.end("}")
        return first

    def members(self, members: Sequence[Field], user_data_of: int = 0) -> None:
        """Write the fields of a struct, without its braces."""
        separator = ""
        for field in members:
            if field.type == "topics":
                self.emit(op.TOPICS)
            elif field.tag is None:
                self.text(f'{separator}"{field.name}":')
                self.field(field, user_data_of)
                separator = ","

    def tags(self, members: Sequence[Field]) -> None:
        """Write the tagged fields of a struct, which are sorted by number."""
        tagged = [field for field in members if field.tag is not None]
        assert tagged == sorted(tagged, key=lambda field: field.tag or 0) != members
        if not tagged:
            self.emit(op.NO_TAGS)
            return
        self.emit(op.TAGS)
        following = self.emit(op.NEXT_TAG)
        branches = [self.emit(op.IF_TAG, field.tag or 0) for field in tagged]
        self.emit(op.REFUSE)
        for branch, field in zip(branches, tagged, strict=True):
            self.code[branch][3] = self.label()
            self.emit(op.NOT, *self.piece(_default_bytes(field)))
            self.text(f',"{field.name}":')
            self.field(field, 0)
            self.emit(op.JUMP, following)
        self.code[following][1] = self.label()

    def field(self, field: Field, user_data_of: int) -> None:
        if field.array:
            array = self.emit(op.ARRAY, field.compact, field.nullable)
            first = self.label()
            self.single(field, nullable=False)
            self.emit(op.NEXT, first)
            self.code[array][3] = self.label()
        elif field.type == "bytes" and field.name == "userData":
            self.emit(op.USER_DATA, field.compact, user_data_of)
        elif field.type == "struct" and field.nullable:
            maybe = self.emit(op.MAYBE, field.tag is not None)
            self.single(field, nullable=False)
            self.code[maybe][3] = self.label()
        else:
            self.single(field, field.nullable)

    def single(self, field: Field, nullable: bool) -> None:
        if field.type == "struct":
            assert field.fields is not None
            self.text("{")
            self.members(field.fields)
            if field.compact:
                self.tags(field.fields)
            self.text("}")
        elif field.type == "string":
            self.emit(op.STRING, field.compact, nullable, _NOTES.get(field.name, -1))
        elif field.type == "bytes":
            part = _MEMBER_PARTS.get(field.name)
            if part is None:
                self.emit(op.BYTES, field.compact, nullable)
            else:
                self.emit(op.MEMBER, field.compact, part)
        elif field.type == "uuid":
            self.emit(op.UUID)
        elif field.type in _STREAMS_TYPES:
            self.emit(*_STREAMS_TYPES[field.type])
        else:
            self.emit(op.INT, FIXED[field.type], field.type.startswith("u"))


def _default_bytes(field: Field) -> bytes:
    """Return the bytes of a tagged field that is written, against the rule, with its default."""
    if field.default is None:
        return b"\0"
    if field.array or field.type in ("string", "bytes"):
        assert not field.default
        return b"\1"
    if field.type == "uuid":
        return bytes(16)
    if field.fields is not None:
        prefix = b"\1" if field.nullable else b""
        return prefix + b"".join(_default_bytes(f) for f in field.fields if f.tag is None) + b"\0"
    return int(field.default).to_bytes(FIXED[field.type], "big", signed=True)


_NOTES = {"group": op.GROUP, "groupId": op.GROUP, "protocolType": op.KIND, "protocol": op.PROTOCOL}
_MEMBER_PARTS = {"subscription": 0, "assignment": 1, "allocation": op.CONNECT + 1}
_PART_SCHEMAS = {
    0: "consumer_protocol/ConsumerProtocolSubscription",
    1: "consumer_protocol/ConsumerProtocolAssignment",
    op.CONNECT: "member_metadata/ConnectMetadata",
    op.CONNECT + 1: "member_metadata/ConnectAssignment",
}
"""Schemas of parts that begin with a version of two bytes."""
_STREAMS_TYPES = {
    "text": (op.ASCII, 0),
    "long text": (op.ASCII, 1),
    "no name": (op.NO_NAME,),
    "topic": (op.TOPIC,),
}
