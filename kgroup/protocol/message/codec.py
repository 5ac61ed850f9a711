"""Encoding and decoding of Kafka's generated protocol messages to and from JSON-like values.

Wire layout: the fields of `schema.fields` in order, big endian; in a flexible version, every struct
ends with its tagged fields:

    tagged section   count (unsigned varint), then for each: tag, size (unsigned varints), value

Values have the form that Kafka's own JSON converters print
(generator/.../JsonConverterGenerator.java): camelCase names in the schema's order, UUIDs as Kafka's
base64 string, bytes in standard base64, and a tagged field only if it differs from its default.
Unknown tagged fields of newer Kafka versions are kept in their struct as ``"_tagged": [{"tag": 7,
"data": base64}]``.

Each version of a message has its own reader, generated as Python source: adjacent fixed-length
fields are unpacked together, and reading needs no lookups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from struct import Struct
from typing import Any, NoReturn

from kgroup.protocol.message.primitives import (
    JAVA_UTF8,
    DecodeError,
    base64_bytes,
    base64_text,
    compact_length,
    unsigned_varint,
    uuid_bytes,
    uuid_text,
)
from kgroup.protocol.message.schema import FIXED, Field, fields, flexible, versions

Reader = Callable[[bytes, int, int], tuple[dict[str, Any], int]]
"""``(buffer, position, size) -> (message, end)``; raises `DecodeError` if the bytes do not fit.

`size` is the buffer's length. Bytes after `end` are ignored.
"""

_MOST_VALUES = 1 << 22
"""Maximum values of a message, about 60 bytes each as objects; a struct counts for 3 more.

Without it, arrays of tiny elements would take a hundred times the memory of their bytes.
"""

_VERSION = Struct(">h").unpack_from
_CODES = {"int8": "b", "int16": "h", "uint16": "H", "int32": "i", "int64": "q", "uuid": "16s"}


def read(name: str, version: int, buffer: bytes, position: int = 0) -> tuple[dict[str, Any], int]:
    """Decode one message; return it and its end position. Raises `DecodeError`."""
    return reader(name, version)(buffer, position, len(buffer))


def read_whole(
    name: str, version: int, buffer: bytes, *, raw_bytes: bool = False
) -> dict[str, Any]:
    """Decode a message; keep trailing bytes as base64 under "trailing". Raises `DecodeError`."""
    data, end = reader(name, version, raw_bytes=raw_bytes)(buffer, 0, len(buffer))
    if end != len(buffer):
        data["trailing"] = base64_text(buffer[end:])
    return data


def read_or_raw(read: Callable[[bytes], dict[str, Any]], raw: bytes) -> dict[str, Any]:
    """Decode bytes that a client wrote; never raises.

    Return `{"raw": ""}` for no bytes at all, `{"raw", "error"}` if `read` raises `DecodeError`.
    """
    if not raw:
        return {"raw": ""}
    try:
        return read(raw)
    except DecodeError as error:
        return {"raw": base64_text(raw), "error": str(error)}


def versioned_reader(name: str, *, raw_bytes: bool = False) -> Callable[[bytes], dict[str, Any]]:
    """Return a reader of messages preceded by their version (int16), as Kafka's clients read them.

    It returns `{"version", …fields}`, and raises `DecodeError`. A version newer than the newest
    known one is decoded like that one, and trailing bytes are kept as base64 under "trailing".
    """
    readers: tuple[Reader, ...] = ()  # one per version from 0; generated on first use

    def read(buffer: bytes) -> dict[str, Any]:
        nonlocal readers
        if not readers:
            readers = tuple(
                reader(name, version, raw_bytes=raw_bytes, is_shown=True)
                for version in range(versions(name)[-1] + 1)
            )
        size = len(buffer)
        if size < 2:
            raise DecodeError(0, f"version: 2 bytes expected, {size} left")
        version: int = _VERSION(buffer)[0]
        if version < 0:
            raise DecodeError(0, f"version: {version} is negative")
        if version < len(readers):
            data, end = readers[version](buffer, 2, size)
        else:
            data, end = readers[-1](buffer, 2, size)
            data["version"] = version
        if end != size:
            data["trailing"] = base64_text(buffer[end:])
        return data

    return read


@cache
def reader(
    name: str,
    version: int,
    *,
    raw_bytes: bool = False,
    unknown_tags: bool = True,
    is_shown: bool = False,
) -> Reader:
    """Generate the reader of one version of a message.

    Args:
        name: name of the schema.
        version: a version of the schema; another one raises ValueError.
        raw_bytes: whether bytes fields stay `bytes` instead of base64 strings.
        unknown_tags: whether unknown tagged fields are kept; otherwise they are errors.
        is_shown: whether the version is the message's first field, "version".
    """
    source = _Source(raw_bytes, unknown_tags)
    shown = version if is_shown else None
    source.struct("data", fields(name, version), flexible(name, version), "", shown)
    head = ["def read(buf, pos, size):", f"left = {_MOST_VALUES}"]
    text = "\n    ".join([*head, *source.lines, "return data, pos"])
    scope = dict(source.names)
    exec(compile(text, f"<{name} v{version}>", "exec"), scope)
    made: Reader = scope["read"]
    return made


class _Source:
    """Collects the source of one reader: straight-line code, with a loop for each array.

    Every method adds lines that read a value at `pos` into the variable `target`. Fixed-length
    fields wait in `run`, to be unpacked together with adjacent ones.
    """

    def __init__(self, raw_bytes: bool, unknown_tags: bool) -> None:
        self.raw_bytes = raw_bytes
        self.unknown_tags = unknown_tags
        self.lines: list[str] = []
        self.indent = ""
        self.run: list[tuple[str, str, str]] = []  # variable, struct code, field path
        self.names: dict[str, Any] = {
            "Struct": Struct,
            "bad_length": _bad_length,
            "bad_tag": _bad_tag,
            "base64": base64_text,
            "compact_length": compact_length,
            "cut": _cut,
            "too_many": _too_many,
            "uuid": uuid_text,
            "varint": unsigned_varint,
        }

    def line(self, text: str) -> None:
        self.lines.append(self.indent + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Add `head`, and indent the lines added inside the context."""
        self.line(head)
        self.indent += "    "
        yield
        self.indent = self.indent[:-4]

    def name(self, hint: str, value: Any) -> str:
        """Bind a value to a global name and return the name."""
        name = f"{hint}_{len(self.names)}"
        self.names[name] = value
        return name

    def struct(
        self,
        target: str,
        members: Sequence[Field],
        tags: bool,
        path: str,
        version: int | None = None,
    ) -> None:
        """Read all fields of a struct into a dict."""
        for field in members:
            if field.tag is None:
                self.field(f"{target}_{field.name}", field, f"{path}{field.name}")
        self.flush()
        if tags:
            self.tagged_section(target, members, path)
        pairs = [f"{f.name!r}: {target}_{f.name}" for f in members if f.tag is None]
        if version is not None:
            pairs.insert(0, f"'version': {version}")
        self.line(f"{target} = {{{', '.join(pairs)}}}")
        if tags:
            for field in members:
                if field.tag is not None:
                    value = f"{target}_{field.name}"
                    default = self.name("default", field.default)
                    self.line(f"if {value} != {default}: {target}[{field.name!r}] = {value}")
            self.line(f"if {target}__unknown: {target}['_tagged'] = {target}__unknown")

    def field(self, target: str, field: Field, path: str) -> None:
        if field.array:
            self.length("i", field.compact, path)
            self.variable(target, field, path, lambda: self.elements(target, field, path))
        elif field.type in FIXED:
            self.run.append((target, _CODES[field.type], path))
        elif field.type == "struct":
            self.nullable_struct(target, field, path)
        else:
            self.length("h" if field.type == "string" else "i", field.compact, path)
            self.variable(target, field, path, lambda: self.content(target, field))

    def flush(self) -> None:
        """Unpack the fields that wait in `run`."""
        if not self.run:
            return
        layout = Struct(">" + "".join(code for _, code, _ in self.run))
        unpack = self.name("unpack", layout.unpack_from)
        run = self.name("run", [(path, Struct(f">{code}").size) for _, code, path in self.run])
        self.line(f"end = pos + {layout.size}")
        self.line(f"if end > size: cut({run}, pos, size)")
        self.line(f"{', '.join(target for target, _, _ in self.run)}, = {unpack}(buf, pos)")
        self.line("pos = end")
        for target, code, _ in self.run:
            if code == "16s":
                self.line(f"{target} = uuid({target})")
        self.run.clear()

    def length(self, code: str, compact: bool, path: str) -> None:
        """Read a length into `n`; negative is null."""
        if not compact:
            self.run.append(("n", code, path))
            self.flush()
            return
        self.flush()
        self.line("if pos < size and (n := buf[pos]) < 128: n -= 1; pos += 1")
        self.line(f"else: n, pos = compact_length(buf, pos, size, {path!r})")

    def varint(self, target: str, path: str) -> None:
        self.line(f"if pos < size and ({target} := buf[pos]) < 128: pos += 1")
        self.line(f"else: {target}, pos = varint(buf, pos, size, {path!r})")

    def variable(self, target: str, field: Field, path: str, content: Callable[[], None]) -> None:
        """Check the length `n`, then read the content; each unit of `n` takes at least one byte."""
        if field.type == "string" and field.compact and not field.array:
            self.line(f"if n > 32767: bad_length({path!r}, n, pos, size)")
        self.line("end = pos + n")
        if field.nullable:
            self.line(f"if n < 0: {target} = None")
            self.line(f"elif end > size: bad_length({path!r}, n, pos, size)")
            with self.block("else:"):
                content()
        else:
            self.line(f"if n < 0 or end > size: bad_length({path!r}, n, pos, size)")
            content()

    def content(self, target: str, field: Field) -> None:
        """Read the bytes up to `end`."""
        if field.type == "string":
            self.line(f"{target} = buf[pos:end].decode('utf-8', {JAVA_UTF8!r})")
        elif self.raw_bytes:
            self.line(f"{target} = buf[pos:end]")
        else:
            self.line(f"{target} = base64(buf[pos:end])")
        self.line("pos = end")

    def elements(self, target: str, field: Field, path: str) -> None:
        """Read `n` elements of an array."""
        self.count(f"{1 if field.fields is None else len(field.fields) + 3} * n", path)
        if field.type in FIXED and field.type != "uuid":
            self.line(f"end = pos + {FIXED[field.type]} * n")
            self.line(f"if end > size: cut([({path!r}, end - pos)], pos, size)")
            code = _CODES[field.type]
            short = self.name("short", [Struct(f">{n}{code}").unpack_from for n in range(16)])
            long = f"Struct(f'>{{n}}{code}').unpack_from"
            self.line(f"{target} = [*({short}[n] if n < 16 else {long})(buf, pos)]")
            self.line("pos = end")
            return
        element = f"{target}__element"
        self.line(f"{target} = []")
        with self.block("for _ in range(n):"):
            if field.fields is not None:
                self.struct(element, field.fields, field.compact, f"{path}.")
            else:
                single = replace(field, array=False, nullable=False)
                self.field(element, single, path)
                self.flush()
            self.line(f"{target}.append({element})")

    def count(self, values: str, path: str) -> None:
        """Reject a message with more than the maximum number of values."""
        self.line(f"left -= {values}")
        self.line(f"if left < 0: too_many({path!r}, pos)")

    def nullable_struct(self, target: str, field: Field, path: str) -> None:
        """Read a struct that is not an array element."""
        assert field.fields is not None
        if not field.nullable:
            self.flush()
            self.struct(target, field.fields, field.compact, f"{path}.")
            return
        if field.tag is None:
            self.run.append(("n", "b", path))
            self.flush()
            self.line(f"if n < 0: {target} = None")
        else:
            self.varint("n", path)
            self.line(f"if n <= 0: {target} = None")
        with self.block("else:"):
            self.struct(target, field.fields, field.compact, f"{path}.")

    def tagged_section(self, target: str, members: Sequence[Field], path: str) -> None:
        """Read the tagged fields in any order; of a duplicate tag, the last value counts.

        The size of a known tag is read but not used, as in Kafka's own generated classes.
        """
        tagged = [field for field in members if field.tag is not None]
        path += "tagged fields"
        for field in tagged:
            self.line(f"{target}_{field.name} = {self.name('default', field.default)}")
        self.line(f"{target}__unknown = None")
        self.line("if pos < size and buf[pos] == 0: pos += 1")
        with self.block("else:"):
            self.varint("n", path)
            with self.block("for _ in range(n):"):
                self.varint("tag", path)
                self.varint("n", path)
                for field in tagged:
                    with self.block(f"if tag == {field.tag}:"):
                        self.field(f"{target}_{field.name}", field, f"{path}.{field.name}")
                        self.flush()
                        self.line("continue")
                if not self.unknown_tags:
                    self.line(f"bad_tag({path!r}, tag, pos)")
                    return
                self.line("end = pos + n")
                self.line(f"if n < 0 or end > size: bad_length({path!r}, n, pos, size)")
                self.count("5", path)
                self.line(f"{target}__unknown = {target}__unknown or []")
                tag = "{'tag': tag, 'data': base64(buf[pos:end])}"
                self.line(f"{target}__unknown.append({tag})")
                self.line("pos = end")


def _cut(run: list[tuple[str, int]], position: int, size: int) -> NoReturn:
    """Raise an error that names the field of a run at which the bytes end."""
    for field, width in run:
        if position + width > size:
            left = size - position
            raise DecodeError(position, f"{field}: {width} bytes expected, {left} left")
        position += width
    raise AssertionError("the run fits")


def _bad_length(field: str, length: int, position: int, size: int) -> NoReturn:
    """Raise an error that says why a length (of a string, bytes or array) is invalid."""
    if length < 0:
        raise DecodeError(position, f"{field}: null (length {length}) where a value must be")
    if length > size - position:
        left = size - position
        raise DecodeError(position, f"{field}: length {length}, but only {left} bytes left")
    raise DecodeError(position, f"{field}: length {length} is above the limit, 32767")


def _too_many(field: str, position: int) -> NoReturn:
    raise DecodeError(position, f"{field}: more values than a message may have, {_MOST_VALUES}")


def _bad_tag(field: str, tag: int, position: int) -> NoReturn:
    raise DecodeError(position, f"{field}: tag {tag} is unknown")


def write(name: str, version: int, data: Mapping[str, Any]) -> bytes:
    """Return the encoded message; the inverse of `read`.

    Bytes fields may be base64 strings or `bytes`. A missing tagged field has its default; names
    that the version does not have are ignored. Raises ValueError, TypeError, AttributeError or
    struct.error if `data` does not match the schema.
    """
    out = bytearray()
    _write_struct(out, fields(name, version), flexible(name, version), data)
    return bytes(out)


def _write_struct(
    out: bytearray, members: Sequence[Field], tags: bool, data: Mapping[str, Any]
) -> None:
    for field in members:
        if field.tag is None:
            if field.name not in data:
                raise ValueError(f"{field.name} is missing")
            _write_field(out, field, data[field.name])
    if not tags:
        return
    tagged: list[tuple[int, bytes]] = []
    for field in members:
        if field.tag is not None and field.name in data and data[field.name] != field.default:
            value = bytearray()
            _write_field(value, field, data[field.name])
            tagged.append((field.tag, bytes(value)))
    for unknown in data.get("_tagged", ()):
        tagged.append((unknown["tag"], base64_bytes(unknown["data"])))
    _write_varint(out, len(tagged))
    for tag, content in sorted(tagged, key=lambda item: item[0]):
        _write_varint(out, tag)
        _write_varint(out, len(content))
        out += content


def _write_field(out: bytearray, field: Field, value: Any) -> None:
    if value is None and not field.nullable:
        raise ValueError(f"{field.name} cannot be null")
    if field.array:
        _write_length(out, None if value is None else len(value), field.compact, "i")
        if field.type in _CODES and field.type != "uuid":
            out += Struct(f">{len(value or ())}{_CODES[field.type]}").pack(*value or ())
            return
        for element in value or ():
            _write_single(out, field, element)
    elif field.type == "struct" and field.nullable:
        if field.tag is None:
            out += Struct(">b").pack(-1 if value is None else 1)
        else:
            _write_varint(out, 0 if value is None else 1)
        if value is not None:
            _write_single(out, field, value)
    elif value is None:
        _write_length(out, None, field.compact, "h" if field.type == "string" else "i")
    else:
        _write_single(out, field, value)


def _write_single(out: bytearray, field: Field, value: Any) -> None:
    if field.type == "struct":
        assert field.fields is not None
        _write_struct(out, field.fields, field.compact, value)
    elif field.type == "string":
        raw = value.encode("utf-8", "replace")  # "?" for a lone surrogate, as in Java
        if len(raw) > 32767:
            raise ValueError(f"{field.name} is too long: {len(raw)} bytes, 32767 at most")
        _write_length(out, len(raw), field.compact, "h")
        out += raw
    elif field.type == "bytes":
        raw = base64_bytes(value) if isinstance(value, str) else bytes(value)
        _write_length(out, len(raw), field.compact, "i")
        out += raw
    elif field.type == "uuid":
        out += uuid_bytes(value)
    else:
        out += Struct(">" + _CODES[field.type]).pack(value)


def _write_length(out: bytearray, length: int | None, compact: bool, code: str) -> None:
    """Write a length, None for null."""
    if compact:
        _write_varint(out, 0 if length is None else length + 1)
    else:
        out += Struct(">" + code).pack(-1 if length is None else length)


def _write_varint(out: bytearray, value: int) -> None:
    value &= 0xFFFFFFFF
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
