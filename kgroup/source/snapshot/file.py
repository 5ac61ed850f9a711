"""Snapshots as files: the dataclasses of `kgroup.model.snapshot` as JSON, optionally in gzip.

msgspec converts between the two by the annotations of the dataclasses, and reports where a file
does not match. Unknown fields are ignored; their order does not matter.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, BinaryIO, Union, get_args, get_origin, get_type_hints

import msgspec

from kgroup.errors import InputError, UsageError
from kgroup.model.pattern import parse_regex
from kgroup.model.snapshot import SNAPSHOT_VERSION, Snapshot
from kgroup.source.json_fault import json_fault

_STDIN = Path("-")
_GZIP_MAGIC = b"\x1f\x8b"
_HEAD_SIZE = 1 << 12
LARGEST_SNAPSHOT = 1 << 28
"""Maximum bytes of JSON to read; a cluster of 50,000 groups has a few hundred million."""

_INT = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
_LONG = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
_MOST = (1 << 15) - 1
"""Maximum UTF-8 bytes of a string in Kafka, and thus its maximum characters."""
_STRING = Annotated[str, msgspec.Meta(max_length=_MOST)]
_LONGS = re.compile(r".*offset|(?!.*timeout).*_ms|lag|position|producer_id")
"""Names of numbers that have 64 bits in Kafka; all others have 32."""
_TEXTS = ("base64", "data", "notes", "reason")
"""Names of texts that are not strings in Kafka."""


@dataclass(frozen=True, slots=True)
class _Head:
    """Fields that are checked first: whether this version can read the rest."""

    command: Any = None
    schema_version: Any = None


def read_snapshot(path: Path) -> Snapshot:
    """Read a snapshot; ``-`` is standard input.

    Raises:
        InputError: the file is not a snapshot, is damaged, or is of a newer version.
        UsageError: standard input is a terminal.
    """
    try:
        if path == _STDIN:
            if sys.stdin.isatty():
                raise UsageError(
                    "standard input is a terminal; pipe or redirect a snapshot into it"
                )
            return _decode(_contents(sys.stdin.buffer))
        with path.open("rb") as file:
            return _decode(_contents(file))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}", path=str(path)) from None
    except InputError as error:
        name = "standard input" if path == _STDIN else path
        raise InputError(f"{name}: {error}", path=str(path)) from None


def is_snapshot(path: Path) -> bool:
    """Return whether a file may be a snapshot, by its first bytes; no segment starts like that.

    Raises:
        OSError: the file cannot be read.
    """
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(_HEAD_SIZE).lstrip().startswith((b"{", _GZIP_MAGIC))


def snapshot_lines(snapshot: Snapshot) -> Iterator[bytes]:
    """Yield a snapshot with one field per line, and one line per group or other dataclass."""
    before = b"{"
    for field in fields(snapshot):
        value = getattr(snapshot, field.name)
        yield before + _encode(field.name) + b":"
        if isinstance(value, tuple) and value and is_dataclass(value[0]):
            yield b"[\n" + b",\n".join(map(_encode, value)) + b"\n]"
        else:
            yield _encode(value)
        before = b",\n"
    yield b"}\n"


def write_gzip(file: BinaryIO, blocks: Iterator[bytes]) -> None:
    """Compress blocks; equal blocks give equal bytes."""
    with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as compressed:
        for block in blocks:
            compressed.write(block)


def _encode(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        # File names need not be UTF-8; Python uses lone surrogates then, which must be escaped.
        return json.dumps(msgspec.to_builtins(value, str_keys=True)).encode()


def _contents(file: BinaryIO) -> bytes:
    """Read and decompress a file that may be a snapshot."""
    head = file.read(_HEAD_SIZE)
    if not head.startswith(_GZIP_MAGIC):
        return _object(head, file)
    whole = _limited(head, file)
    try:
        with gzip.GzipFile(fileobj=BytesIO(whole)) as unpacked:
            return _object(unpacked.read(_HEAD_SIZE), unpacked)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        what = f"expected whole gzip data, found damage: {error}; copy the file, or write it, again"
        raise InputError(what) from None


def _object(head: bytes, file: BinaryIO | gzip.GzipFile) -> bytes:
    """Read the rest of data that must start like a JSON object; endless blanks are rejected."""
    if not head.lstrip().startswith(b"{"):
        content = f"bytes {head[:8].hex(' ')}" if head else "an empty file"
        raise InputError(f"expected a snapshot (JSON, or gzip with JSON in it), found {content}")
    return _limited(head, file)


def _limited(head: bytes, file: BinaryIO | gzip.GzipFile) -> bytes:
    rest = file.read(max(LARGEST_SNAPSHOT + 1 - len(head), 0))
    if len(head) + len(rest) > LARGEST_SNAPSHOT:
        raise InputError(
            f"expected a snapshot of at most {LARGEST_SNAPSHOT:,} bytes, found more than that; "
            "take one of fewer groups"
        )
    return head + rest


def _decode(data: bytes) -> Snapshot:
    try:
        _check_head(_convert(data, _Head))
        snapshot: Snapshot = _convert(data, Snapshot)
        _check_limits(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(json_fault(error)) from None
    except UnicodeEncodeError as error:  # see `_convert`: a lone surrogate outside of file names
        text = ascii(error.object[:60])
        raise InputError(f"expected a field, a word or a number, found {text}") from None
    except RecursionError:
        raise InputError("expected a snapshot, found JSON of too many levels") from None
    try:
        if snapshot.choice.regex is not None:
            parse_regex(snapshot.choice.regex)
    except ValueError as error:
        raise InputError(f"$.choice.regex: expected a regular expression; {error}") from None
    for number, node in enumerate(snapshot.zookeeper or ()):
        if not node.path.startswith("/"):
            raise InputError(f"$.zookeeper[{number}].path: expected /…, found {_short(node.path)}")
        try:
            node.node()
        except ValueError:
            where = f"$.zookeeper[{number}].base64"
            raise InputError(f"{where}: expected base64, found {_short(node.base64)}") from None
    return snapshot


def _convert(data: bytes, into: Any) -> Any:
    try:
        return msgspec.json.decode(data, type=into)
    except msgspec.DecodeError as error:
        if "surrogate" not in str(error):
            raise
        try:
            tree = json.loads(data)
        except ValueError:  # not JSON either
            raise error from None
    return msgspec.convert(tree, into)


def _check_limits(data: bytes) -> None:
    """Verify that numbers and strings fit into Kafka's messages, as simulations encode them."""
    try:
        read = _convert(data, _limits(Snapshot))
    except msgspec.ValidationError as error:
        fault = json_fault(error)
        value = json.loads(data)
        for name, index in re.findall(r"\.(\w+)|\[(\d+)\]", fault.partition(": ")[0]):
            value = value[name or int(index)]
        raise InputError(f"{fault}, found {_short(value)}") from None
    # non-ASCII characters take more bytes, and may be written as escapes
    is_plain = data.isascii() and b"\\u" not in data
    if not is_plain and (long := _long_text(read)):
        path, text = long
        what = f"expected a text of at most {_MOST} bytes of UTF-8, found {_short(text)}"
        raise InputError(f"${path}: {what}")


def _long_text(value: Any, name: str = "") -> tuple[str, str] | None:
    """Return the place and the text of a string that is too long for Kafka's messages, if any.

    Args:
        value: value of a type from `_limits`.
        name: name of the field.
    """
    if isinstance(value, str):
        is_long = name not in _TEXTS and len(value.encode(errors="surrogatepass")) > _MOST
        return ("", value) if is_long else None
    parts: Iterable[tuple[str, str, Any]] = ()
    if isinstance(value, msgspec.Struct):
        parts = ((f".{at}", at, getattr(value, at)) for at in value.__struct_fields__)
    elif isinstance(value, Mapping):
        parts = (("[...]", name, part) for item in value.items() for part in item)
    elif isinstance(value, list | tuple):
        parts = ((f"[{at}]", name, item) for at, item in enumerate(value))
    for place, at, part in parts:
        if (long := _long_text(part, at)) is not None:
            return f"{place}{long[0]}", long[1]
    return None


@cache
def _limits(kind: Any, name: str = "") -> Any:
    """Return a type of the model with only the limits of its numbers and strings.

    Args:
        kind: type of a field, or of the elements of a field.
        name: name of the field.
    """
    if kind is int:
        return _LONG if _LONGS.fullmatch(name) else _INT
    if kind is str and name not in _TEXTS:
        return _STRING
    if is_dataclass(kind):
        limits = [(at, _limits(own, at), None) for at, own in get_type_hints(kind).items()]
        return msgspec.defstruct("Limits", limits)
    args = tuple(_limits(own, name) for own in get_args(kind))
    if isinstance(kind, UnionType) or get_origin(kind) is Union:
        return Union[args]  # noqa: UP007 -- a union of any number of types
    return get_origin(kind)[args] if args else kind


def _check_head(head: _Head) -> None:
    if head.command != "snapshot":
        raise InputError(
            f'$.command: expected "snapshot", found {_short(head.command)}; kgroup snapshot writes '
            "such files"
        )
    version = head.schema_version
    if type(version) is not int or version < 1:
        raise InputError(
            f"$.schema_version: expected a number from 1 to {SNAPSHOT_VERSION}, found "
            f"{_short(version)}"
        )
    if version > SNAPSHOT_VERSION:
        raise InputError(
            f"$.schema_version: expected at most {SNAPSHOT_VERSION}, found {version}: written by a "
            "newer version of kgroup, which can read it"
        )


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:60]}…"
