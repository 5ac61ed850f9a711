"""Messages of Kafka's generated protocol: bytes to JSON-like values and back.

Wire layout: the fields of `message_schema.fields` one after the other, big endian, and in a
flexible version at the end of every struct the tagged ones:

    tagged section   count (unsigned varint), then for each: tag, size (unsigned varints), value

Values look as Kafka's own JSON converters print them (generator/.../JsonConverterGenerator.java):
camelCase names in the schema's order, uuids in Kafka's base64 text, bytes in standard base64, and
a tagged field only where it is not at its default. What a newer Kafka added as a tagged field is
kept in its struct as ``"_tagged": [{"tag": 7, "data": base64}]``.

Each version of a message gets a reader of its own, generated as Python source: adjacent fields of
fixed length are read in one go, and nothing is looked up while reading.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from struct import Struct
from struct import unpack_from as _unpack_from
from typing import Any, NoReturn

from kgroup.protocol.message_schema import FIXED, Field, Versions, fields, flexible, versions
from kgroup.protocol.primitives import (
    JAVA_UTF8,
    DecodeError,
    base64_bytes,
    base64_text,
    compact_length,
    unsigned_varint,
    uuid_bytes,
    uuid_text,
)

__all__ = [
    "FIXED",
    "Field",
    "Reader",
    "Versions",
    "fields",
    "flexible",
    "read",
    "read_versioned",
    "reader",
    "versions",
    "write",
]

Reader = Callable[[bytes, int, int], tuple[dict[str, Any], int]]
"""``(buffer, position, size) -> (message, end)``; `DecodeError` where the bytes do not fit.

`size` is the buffer's length. What follows `end` is not looked at.
"""

_VERSION = Struct(">h").unpack_from
_CODES = {"int8": "b", "int16": "h", "uint16": "H", "int32": "i", "int64": "q", "uuid": "16s"}


def read(name: str, version: int, buffer: bytes, position: int = 0) -> tuple[dict[str, Any], int]:
    """Read one message; give it and the position of its end. Raises `DecodeError`."""
    return reader(name, version)(buffer, position, len(buffer))


def read_versioned(name: str, buffer: bytes, *, raw_bytes: bool = False) -> dict[str, Any]:
    """Read a message behind its version (int16) as Kafka's clients do; raises `DecodeError`.

    Gives `{"version", …fields}`. A version newer than the newest known one is read like that one,
    and what follows the message is kept as base64 under "trailing".
    """
    if len(buffer) < 2:
        raise DecodeError(0, f"version: 2 bytes expected, {len(buffer)} left")
    (version,) = _VERSION(buffer)
    if version < 0:
        raise DecodeError(0, f"version: {version} is negative")
    readers = _readers(name, raw_bytes)
    data, end = readers[min(version, len(readers) - 1)](buffer, 2, len(buffer))
    data = {"version": version, **data}
    if end != len(buffer):
        data["trailing"] = base64_text(buffer[end:])
    return data


@cache
def _readers(name: str, raw_bytes: bool) -> tuple[Reader, ...]:
    """The readers of all versions of a message that begins with version 0."""
    return tuple(reader(name, v, raw_bytes=raw_bytes) for v in range(versions(name).highest + 1))


@cache
def reader(name: str, version: int, *, raw_bytes: bool = False) -> Reader:
    """The reader of one version of a message; with `raw_bytes` its bytes fields stay `bytes`."""
    source = _Source(raw_bytes)
    source.struct("read", fields(name, version), flexible(name, version), "")
    code = compile(source.text(), f"<{name} v{version}>", "exec")
    scope = dict(source.names)
    exec(code, scope)
    made: Reader = scope["read"]
    return made


class _Source:
    """Collects the source of one reader: a function for each struct."""

    def __init__(self, raw_bytes: bool) -> None:
        self.raw_bytes = raw_bytes
        self.functions: list[str] = []
        self.names: dict[str, Any] = {
            "compact_length": compact_length,
            "cut": _cut,
            "bad_length": _bad_length,
            "base64": base64_text,
            "unpack": _unpack_from,
            "uuid": uuid_text,
            "varint": unsigned_varint,
        }

    def text(self) -> str:
        return "\n".join(self.functions)

    def struct(self, function: str, members: Sequence[Field], tags: bool, path: str) -> None:
        body = _Body(self, path)
        for field in members:
            if field.tag is None:
                body.field(field)
        body.flush()
        tagged = [field for field in members if field.tag is not None]
        if tags:
            body.tagged_section(tagged)
        pairs = [f"{f.name!r}: {body.variable(f)}" for f in members if f.tag is None]
        body.line(f"data = {{{', '.join(pairs)}}}")
        for field in tagged:
            default = self.name(f"default_{field.name}", field.default)
            body.line(f"if {body.variable(field)} != {default}:")
            body.line(f"    data[{field.name!r}] = {body.variable(field)}")
        if tags:
            body.line("if unknown is not None:")
            body.line("    data['_tagged'] = unknown")
        body.line("return data, pos")
        self.functions.append(
            f"def {function}(buf, pos, size):\n" + "\n".join(f"    {x}" for x in body.lines)
        )

    def name(self, hint: str, value: Any) -> str:
        """A global name of the generated source for a value."""
        name = f"{hint}_{len(self.names)}"
        self.names[name] = value
        return name


class _Body:
    """The lines of one struct's function; fixed fields wait in `run` to be read together."""

    def __init__(self, source: _Source, path: str) -> None:
        self.source = source
        self.path = path
        self.lines: list[str] = []
        self.indent = ""
        self.run: list[tuple[str, str, str]] = []  # variable, struct code, path of the field

    def line(self, text: str) -> None:
        self.lines.append(self.indent + text)

    def variable(self, field: Field) -> str:
        return f"v_{field.name}"

    def field(self, field: Field) -> None:
        """Read one field into its variable."""
        target, path = self.variable(field), f"{self.path}{field.name}"
        if field.type in FIXED and not field.array:
            self.run.append((target, _CODES[field.type], path))
            return
        if field.type == "struct" and not field.array:
            self.flush()
            self.single_struct(field, target, path)
            return
        self.length(field.array or field.type == "bytes", field.compact, path)
        if field.array:
            self.open_length(target, field.nullable, path, "n > size - pos")
            self.elements(field, target, path)
        else:
            limit = "n > size - pos" + (" or n > 32767" if field.type == "string" else "")
            self.open_length(target, field.nullable, path, limit)
            self.content(field.type, target)
        self.indent = self.indent[:-4]

    def flush(self) -> None:
        """Read the waiting run of fixed fields (and perhaps the length after them)."""
        if not self.run:
            return
        layout = Struct(">" + "".join(code for _, code, _ in self.run))
        unpack = self.source.name("unpack", layout.unpack_from)
        waiting = self.source.name("run", [(path, Struct(f">{c}").size) for _, c, path in self.run])
        self.line(f"end = pos + {layout.size}")
        self.line("if end > size:")
        self.line(f"    cut({waiting}, pos, size)")
        self.line(f"{', '.join(target for target, _, _ in self.run)}, = {unpack}(buf, pos)")
        self.line("pos = end")
        for target, code, _ in self.run:
            if code == "16s":
                self.line(f"{target} = uuid({target})")
        self.run.clear()

    def length(self, wide: bool, compact: bool, path: str) -> None:
        """Read a length into `n`; negative is null."""
        if not compact:
            self.run.append(("n", "i" if wide else "h", path))
            self.flush()
            return
        self.flush()
        self.line("if pos < size and (n := buf[pos]) < 128:")
        self.line("    n -= 1")
        self.line("    pos += 1")
        self.line("else:")
        self.line(f"    n, pos = compact_length(buf, pos, size, {path!r})")

    def open_length(self, target: str, nullable: bool, path: str, too_long: str) -> None:
        """Refuse a wrong `n`, and open the block for a good one."""
        if nullable:
            self.line("if n < 0:")
            self.line(f"    {target} = None")
            self.line(f"elif {too_long}:")
        else:
            self.line(f"if n < 0 or {too_long}:")
        self.line(f"    bad_length({path!r}, n, pos, size)")
        self.line("else:")
        self.indent += "    "

    def content(self, kind: str, target: str) -> None:
        """Take `n` bytes as a string or as bytes."""
        self.line("end = pos + n")
        if kind == "string":
            self.line(f"{target} = buf[pos:end].decode('utf-8', {JAVA_UTF8!r})")
        elif self.source.raw_bytes:
            self.line(f"{target} = buf[pos:end]")
        else:
            self.line(f"{target} = base64(buf[pos:end])")
        self.line("pos = end")

    def elements(self, field: Field, target: str, path: str) -> None:
        """Take `n` elements of an array."""
        if field.type in FIXED and field.type != "uuid":
            width = FIXED[field.type]
            self.line(f"end = pos + {width} * n")
            self.line("if end > size:")
            self.line(f"    bad_length({path!r}, n, pos, size)")
            self.line(f"{target} = list(unpack(f'>{{n}}{_CODES[field.type]}', buf, pos))")
            self.line("pos = end")
            return
        self.line(f"{target} = []")
        self.line("for _ in range(n):")
        self.indent += "    "
        if field.type == "struct":
            self.line(f"element, pos = {self.nested(field, path)}(buf, pos, size)")
        elif field.type == "uuid":
            self.run.append(("element", "16s", path))
            self.flush()
        else:
            self.length(field.type == "bytes", field.compact, path)
            self.open_length("element", False, path, "n > size - pos")
            self.content(field.type, "element")
            self.indent = self.indent[:-4]
        self.line(f"{target}.append(element)")
        self.indent = self.indent[:-4]

    def single_struct(self, field: Field, target: str, path: str) -> None:
        function = self.nested(field, path)
        if not field.nullable:
            self.line(f"{target}, pos = {function}(buf, pos, size)")
            return
        if field.tag is None:
            self.run.append(("n", "b", path))
            self.flush()
            self.line("if n < 0:")
        else:
            self.line(f"n, pos = varint(buf, pos, size, {path!r})")
            self.line("if n <= 0:")
        self.line(f"    {target} = None")
        self.line("else:")
        self.line(f"    {target}, pos = {function}(buf, pos, size)")

    def nested(self, field: Field, path: str) -> str:
        """The function that reads a field's struct."""
        assert field.fields is not None
        function = f"read_{len(self.source.names)}_{len(self.source.functions)}"
        self.source.names[function] = None  # reserves the name
        self.source.struct(function, field.fields, field.compact, f"{path}.")
        return function

    def tagged_section(self, tagged: Sequence[Field]) -> None:
        """Read the tagged fields in any order; of one that comes twice the last counts.

        The size of a known tag is read and not used, as in Kafka's own generated classes.
        """
        path = f"{self.path}tagged fields"
        for field in tagged:
            default = self.source.name(f"default_{field.name}", field.default)
            self.line(f"{self.variable(field)} = {default}")
        self.line("unknown = None")
        self.line("if pos < size and buf[pos] == 0:")
        self.line("    pos += 1")
        self.line("else:")
        self.line(f"    count, pos = varint(buf, pos, size, {path!r})")
        self.line("    for _ in range(count):")
        self.line(f"        tag, pos = varint(buf, pos, size, {path!r})")
        self.line(f"        length, pos = varint(buf, pos, size, {path!r})")
        self.indent = " " * 8
        branch = "if"
        for field in tagged:
            self.line(f"{branch} tag == {field.tag}:")
            self.indent += "    "
            self.field(field)
            self.flush()
            self.indent = self.indent[:-4]
            branch = "elif"
        self.line("else:" if tagged else "if True:")
        self.line("    if length < 0 or length > size - pos:")
        self.line(f"        bad_length({path!r}, length, pos, size)")
        self.line("    end = pos + length")
        self.line("    unknown = unknown or []")
        self.line("    unknown.append({'tag': tag, 'data': base64(buf[pos:end])})")
        self.line("    pos = end")
        self.indent = ""


def _cut(run: list[tuple[str, int]], position: int, size: int) -> NoReturn:
    """Name the field of a run at which the bytes end."""
    for field, width in run:
        if position + width > size:
            left = size - position
            raise DecodeError(position, f"{field}: {width} bytes expected, {left} left")
        position += width
    raise AssertionError("the run fits")


def _bad_length(field: str, length: int, position: int, size: int) -> NoReturn:
    """Say why a length (of a string, of bytes, or an array's count) cannot be."""
    if length < 0:
        raise DecodeError(position, f"{field}: null (length {length}) where a value must be")
    if length <= size - position:
        raise DecodeError(position, f"{field}: length {length} is above the limit, 32767")
    raise DecodeError(position, f"{field}: length {length}, but only {size - position} bytes left")


def write(name: str, version: int, data: Mapping[str, Any]) -> bytes:
    """The bytes of a message; the inverse of `read`.

    Bytes fields may be given as base64 text or as `bytes`. A field that is left out has its
    default. Raises KeyError, TypeError, ValueError or struct.error where `data` is no such message.
    """
    out = bytearray()
    _write_struct(out, fields(name, version), flexible(name, version), data)
    return bytes(out)


def _write_struct(
    out: bytearray, members: Sequence[Field], tags: bool, data: Mapping[str, Any]
) -> None:
    for field in members:
        if field.tag is None:
            _write_field(out, field, data.get(field.name, field.default))
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
    """A length, None for null."""
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
