"""Offsets in a file: Kafka's CSV plans, and JSON documents or lines of `kgroup offsets show`.

Kafka's CSV has only offsets; JSON has all their fields. Read too are documents of `kgroup history
as-of`, without the partitions that had no commit at that time, and the input of `kcl group
seek --to-file`: an array of objects with topic, partition and offset.
"""

from __future__ import annotations

import re
import sys
from array import array
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from io import StringIO
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from kgroup.errors import InputError, NotFoundError, ProblemKind, UsageError
from kgroup.model.cluster import TopicPartition
from kgroup.model.offset import NO_OFFSET, CommittedOffset, StoredOffset, StoreName, split_commits
from kgroup.model.pattern import Pattern
from kgroup.model.problem import Problem
from kgroup.protocol.kafka_csv import read_kafka_csv
from kgroup.source.base import GroupSource, OffsetReading
from kgroup.source.json_fault import TRUNCATED, json_fault

LARGEST = 1 << 30
"""Maximum bytes of a file that is read line by line; seven million offsets take less."""
MOST_OFFSETS = 2_000_000
"""Maximum offsets of the requested groups, which are held in memory: about 2 GB."""
LARGEST_WHOLE = 1 << 27
"""Maximum bytes of input that is read as a whole: JSON without one offset per line, or UTF-16."""
LARGEST_ROW = 1 << 17
"""Maximum characters of a line of CSV; the longest group id is a quarter of that."""
MOST_EMPTY = 100_000
"""Maximum number of successive empty lines."""
_ADVICE = "'kgroup offsets export' writes one offset a line; or split the file by groups"

_STDIN = Path("-")
_BOM = "\ufeff"
_PIECE = 1 << 16
_HEAD = re.compile(r'\{"command":"[^"]*","schema_version":\d+,.*"data":\[\s*$')
_DATA_AT = "$.data[{}]".format
_ENDS_LIKE_CSV = re.compile(r",\s*[0-9]+\s*,\s*[0-9]+\s*$")
_MOST_INT, _MOST_LONG = (1 << 31) - 1, (1 << 63) - 1


_COMMAND, _PAST = "offsets show", "history as-of"
"""Commands whose documents contain offsets; a plan has the same fields with another meaning."""


class _Row(StoredOffset, frozen=True, gc=False):
    """A row of JSON; a plan's row also has a target offset, and is not accepted."""

    target_offset: Any = msgspec.UNSET


class _Error(msgspec.Struct):
    """What could not be saved; a newer version may have other kinds."""

    kind: str
    reason: str
    group_id: str | None = None
    offsets_partition: int | None = None
    broker: int | None = None


class _Document(msgspec.Struct):
    """The fields that are read of a document."""

    schema_version: int
    data: list[_Row]
    command: str = _COMMAND
    store: StoreName | None = None
    errors: list[_Error] = []


class _PastOffset(msgspec.Struct):
    """A partition of a group at a time; without a commit, it was owned."""

    topic: str | None
    partition: int
    committed_offset: int | None
    leader_epoch: int | None = None
    metadata: str | None = None
    commit_timestamp_ms: int | None = None


class _PastGroup(msgspec.Struct):
    """A group at a time."""

    group_id: str
    offsets: list[_PastOffset]


class _PastDocument(msgspec.Struct):
    """The fields that are read of a document of `kgroup history as-of`."""

    schema_version: int
    command: str
    data: list[_PastGroup]
    errors: list[_Error] = []


class _Object(msgspec.Struct):
    """The fields that distinguish a document from an offset, and documents from each other."""

    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    command: Any = None


class _SeekRow(msgspec.Struct):
    """A row of kcl's file; other fields are ignored."""

    topic: str
    partition: int
    offset: int


class OffsetFile(GroupSource):
    """A read-only store of offsets.

    Args:
        path: path of the file; - is standard input.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def read_offsets(
        self, group_ids: Collection[str] | None = None, regex: Pattern | None = None
    ) -> OffsetReading:
        """Read the file; see `GroupSource.read_offsets`.

        Its problems are those that were saved with it. Offsets without a group belong to the
        requested group, if exactly one is requested.

        Raises:
            NotFoundError: the file contains no offsets at all.
            InputError: the file cannot be read, or is not a file of offsets.
        """
        names = None if group_ids is None and regex is None else set(group_ids or ())
        only = next(iter(names)) if names is not None and len(names) == 1 else None

        def is_wanted(group_id: str) -> bool:
            return names is None or group_id in names or bool(regex and regex.fullmatch(group_id))

        with self._named_errors(), self._file() as file:
            rows, place, document = _read(_Text(file), only)
            first = list(islice(rows, 1))
            if not first and not (document and document.errors):
                raise NotFoundError("the file has no offsets")
            groups = _by_group(chain(first, rows), place, is_wanted)
        split = {group_id: split_commits(commits) for group_id, (commits, _) in groups.items()}
        return OffsetReading(
            {group_id: commits for group_id, (commits, _) in split.items() if commits},
            tuple(
                self._problem(error)
                for error in (document.errors if document else ())
                if error.kind != ProblemKind.NOT_FOUND  # there was nothing to save of them
                if regex or names is None or _concerns(error, names, names - groups.keys())
            ),
            absent={group_id: none for group_id, (_, none) in groups.items() if none},
            saved_from=document.store if document else None,
            empty_commits={group_id: empty for group_id, (_, empty) in split.items() if empty},
        )

    def _problem(self, error: _Error) -> Problem:
        kinds = set(ProblemKind)
        return Problem(
            ProblemKind(error.kind) if error.kind in kinds else ProblemKind.FAILED,
            f"The file is incomplete; when it was saved: {error.reason}",
            error.group_id,
            str(self._path),
            offsets_partition=error.offsets_partition,
            broker=error.broker,
        )

    def _file(self) -> Any:
        """Open the file, or standard input."""
        if self._path != _STDIN:
            return self._path.open("rb")
        if sys.stdin.isatty():
            raise UsageError(
                "standard input is a terminal; pipe or redirect a file of offsets into it"
            )
        return nullcontext(sys.stdin.buffer)

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Add the file's name to the start of errors."""
        name = "standard input" if self._path == _STDIN else str(self._path)
        try:
            yield
        except OSError as error:
            raise InputError(f"{name}: {error.strerror or error}", path=str(self._path)) from None
        except (InputError, NotFoundError) as error:
            raise type(error)(f"{name}: {error}", path=str(self._path)) from None
        except RecursionError:
            text = f"{name}: expected offsets, found JSON of too many levels"
            raise InputError(text, path=str(self._path)) from None


def _concerns(error: _Error, names: Collection[str], absent: Collection[str]) -> bool:
    """Return whether an error may explain why named groups are missing or incomplete in a file."""
    return bool(absent) if error.group_id is None else error.group_id in names


class _Text:
    """The text of a file, within the limits: lines with their line ends, or all that is left.

    Only one line is held in memory.

    Raises:
        InputError: the file is too large, is not text, or has very many empty lines.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._position = 0
        self._wide: StringIO | None = None

    def __iter__(self) -> Iterator[str]:
        empty = 0
        while line := self._line():
            empty = empty + 1 if line.isspace() else 0
            if empty > MOST_EMPTY:
                raise InputError(f"expected offsets, found more than {MOST_EMPTY:,} empty lines")
            yield line

    def rest(self) -> str:
        """Return what follows the last line, much faster than by lines."""
        if self._wide is not None:
            return self._wide.read()
        data = _limited(self._file, max(LARGEST_WHOLE - self._position, 0))
        if b"\0" in data:
            raise _nul_byte()
        return _decoded(data, "utf-8", self._position)

    def _line(self) -> str:
        if self._wide is not None:
            return self._wide.readline()
        data, position = _line(self._file, LARGEST - self._position), self._position
        self._position += len(data)
        if position == 0 and data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
            # output of PowerShell's `>`
            data += _limited(self._file, LARGEST_WHOLE - len(data))
            self._wide = StringIO(_decoded(data, "utf-16", 0), newline="\n")
            return self._wide.readline()
        text = _decoded(data, "utf-8", position)
        return text if position else text.removeprefix(_BOM)


def _line(file: BinaryIO, most: int) -> bytes:
    """Read a line in pieces, so that bytes without a line end are rejected early."""
    pieces: list[bytes] = []
    left = min(most, LARGEST_WHOLE)
    while piece := file.readline(min(_PIECE, left + 1)):
        if b"\0" in piece and not (pieces or [piece])[0].startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
            raise _nul_byte()
        left -= len(piece)
        if left < 0:
            raise _too_large(LARGEST if most < LARGEST_WHOLE else LARGEST_WHOLE)
        pieces.append(piece)
        if piece.endswith(b"\n"):
            break
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _nul_byte() -> InputError:
    return InputError("expected offsets, found a NUL byte; is it the right file?")


def _limited(file: BinaryIO, most: int) -> bytes:
    data = file.read(most + 1)
    if len(data) > most:
        raise _too_large(LARGEST_WHOLE)
    return data


def _too_large(most: int) -> InputError:
    return InputError(f"expected offsets of at most {most:,} bytes, found more; {_ADVICE}")


def _decoded(data: bytes, encoding: str, position: int) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        name, byte = error.encoding.upper(), data[error.start]
        raise InputError(
            f"expected {name}, found byte 0x{byte:02x} at {position + error.start}"
        ) from None


_Rows = Iterator[tuple[int, StoredOffset]]
"""Offsets, each with its number."""
_Place = Callable[[int], str]
"""Returns the place of a number in the file."""
_OfGroup = tuple[tuple[CommittedOffset, ...], tuple[TopicPartition, ...]]
"""Committed offsets, and partitions without a commit."""


def _by_group(rows: _Rows, place: _Place, is_wanted: Callable[[str], bool]) -> dict[str, _OfGroup]:
    """Return the offsets of some groups, sorted; a duplicate partition is an error."""
    names: dict[str, str] = {}
    groups: dict[str, tuple[list[CommittedOffset], array[int]]] = {}
    absent: defaultdict[str, list[tuple[TopicPartition, int]]] = defaultdict(list)
    count = 0
    for number, row in rows:
        if not is_wanted(row.group_id):
            continue
        count += 1
        if count > MOST_OFFSETS:
            raise InputError(
                f"{place(number)}: expected at most {MOST_OFFSETS:,} offsets, found more; name the "
                "groups to read, or split the file by groups"
            )
        group_id = names.setdefault(row.group_id, row.group_id)
        topic = names.setdefault(row.topic, row.topic)
        if row.committed_offset is None:
            absent[group_id].append(((topic, row.partition), number))
            continue
        if (of_group := groups.get(group_id)) is None:
            of_group = groups[group_id] = [], array("q")
        of_group[0].append(
            CommittedOffset(
                topic,
                row.partition,
                row.committed_offset,
                row.leader_epoch,
                row.metadata,
                row.commit_timestamp_ms,
            )
        )
        of_group[1].append(number)
    sorted_groups: dict[str, _OfGroup] = {}
    for group_id in sorted({*groups, *absent}):
        committed, numbers = groups.pop(group_id, ([], array("q")))
        none = absent.pop(group_id, [])
        sorted_groups[group_id] = _sorted(group_id, committed, numbers, none, place)
    return sorted_groups


def _sorted(
    group_id: str,
    committed: list[CommittedOffset],
    numbers: Iterable[int],
    absent: list[tuple[TopicPartition, int]],
    place: _Place,
) -> _OfGroup:
    """Return the offsets of a group sorted by partition; a duplicate partition is an error."""
    places = [((row.topic, row.partition), at) for row, at in zip(committed, numbers, strict=True)]
    for (at, first), (other, second) in pairwise(sorted(places + absent)):
        if at == other:
            raise InputError(
                f"{place(second)}: expected each partition once, found {at[0]}-{at[1]} "
                f"of group {group_id!r} again, which is at {place(first)}"
            )
    committed.sort(key=lambda row: (row.topic, row.partition))
    return tuple(committed), tuple(sorted(at for at, _ in absent))


def _read(text: _Text, group_id: str | None) -> tuple[_Rows, _Place, _Document | None]:
    """Read offsets in any of the formats, and the document that contains them, if there is one."""
    begin: list[str] = []
    rest = iter(text)
    for line in rest:
        begin.append(line)
        if line.strip():
            break
    else:
        return iter(()), _line_at, None
    lines, first = chain(begin, rest), begin[-1]
    if not _is_json(first):
        return read_kafka_csv(_csv_lines(lines), group_id), _line_at, None
    if first.lstrip().startswith("["):
        return _rows_of_array("".join([*begin, text.rest()]), group_id), "$[{}]".format, None
    if _is_offset(first):
        return _rows_of_lines(lines), _line_at, None
    if _HEAD.match(first):  # kgroup's format, one row per line
        document = _document(f"{first}]}}", _Document)
        if document.command == _COMMAND:
            return _rows_of_elements(_elements(rest, text, document)), _DATA_AT, document
    whole = "".join([*begin, text.rest()])
    if _object(whole).command == _PAST:
        return _rows_of_groups(_document(whole, _PastDocument))
    document = _document(whole, _Document)
    rows = ((at, _checked(row, _DATA_AT, at)) for at, row in enumerate(document.data))
    return rows, _DATA_AT, document


def _csv_lines(lines: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        if len(line) > LARGEST_ROW:
            raise InputError(
                f"line {number}: expected an offset, found {len(line):,} characters in one line"
            )
        yield line.removesuffix("\n")


def _line_at(number: int) -> str:
    return f"line {number}"


_OfOffsets = TypeVar("_OfOffsets", _Document, _PastDocument)


def _document(text: str, kind: type[_OfOffsets]) -> _OfOffsets:
    """Decode a document, and verify that it contains offsets."""
    try:
        document = msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError as error:
        raise InputError(json_fault(error)) from None
    version = document.schema_version
    if version != 1:
        newer = ": written by a newer version of kgroup, which can read it"
        raise InputError(
            f"$.schema_version: expected 1, found {version}{newer if version > 1 else ''}"
        )
    if document.command not in (_COMMAND, _PAST):
        raise InputError(
            f'$.command: expected "{_COMMAND}", found {document.command[:40]!r}, which is no '
            "file of offsets"
        )
    return document


def _elements(lines: Iterable[str], text: _Text, document: _Document) -> Iterator[str]:
    """Yield the rows of a document with one row per line; then decode the errors after the rows."""
    has_more, row = True, ""
    for line in lines:
        if line.startswith("]"):
            if row.endswith(","):
                raise InputError(f"expected a row behind {row[:80]!r}, found the end of $.data")
            try:
                rest = f'{{"schema_version":1,"data":[{line}{text.rest()}'
                document.errors = msgspec.json.decode(rest, type=_Document).errors
            except msgspec.DecodeError as error:
                raise InputError(f"behind $.data: {json_fault(error)}") from None
            return
        row = line.rstrip()
        if not has_more:
            raise InputError(f"expected JSON, found no comma before {row[:80]!r}")
        has_more = row.endswith(",")
        yield row.removesuffix(",")
    raise InputError(TRUNCATED)


def _rows_of_elements(rows: Iterable[str]) -> _Rows:
    decoder = msgspec.json.Decoder(_Row)
    for number, raw in enumerate(rows):
        try:
            row = decoder.decode(raw)
        except msgspec.DecodeError as error:
            fault = json_fault(error)
            inner = fault[1:] if fault.startswith("$") else f": {fault}"
            raise InputError(_DATA_AT(number) + inner) from None
        yield number, _checked(row, _DATA_AT, number)


def _rows_of_groups(document: _PastDocument) -> tuple[_Rows, _Place, _Document]:
    """Return the committed offsets of groups at a time; partitions without a commit stay."""
    found = [
        (f"$.data[{at}].offsets[{number}]", _Row(group.group_id, *msgspec.structs.astuple(row)))
        for at, group in enumerate(document.data)
        for number, row in enumerate(group.offsets)
        if row.topic is not None and row.committed_offset is not None
    ]
    place = [where for where, _ in found].__getitem__
    rows = ((at, _checked(row, place, at)) for at, (_, row) in enumerate(found))
    return rows, place, _Document(1, [], errors=document.errors)


def _rows_of_array(text: str, group_id: str | None) -> _Rows:
    try:
        rows = msgspec.json.decode(text, type=list[_SeekRow])
    except msgspec.DecodeError as error:
        raise InputError(json_fault(error)) from None
    if rows and group_id is None:
        raise InputError(
            "expected groups, found an array of offsets without a group: name the group of the "
            "offsets"
        )
    for number, row in enumerate(rows):
        stored = _Row(group_id or "", row.topic, row.partition, row.offset)
        yield number, _checked(stored, "$[{}]".format, number, offset="offset")


def _rows_of_lines(lines: Iterable[str]) -> _Rows:
    decoder = msgspec.json.Decoder(_Row)
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                row = decoder.decode(line)
            except msgspec.DecodeError as error:
                raise InputError(f"line {number}: {json_fault(error)}") from None
            yield number, _checked(row, _line_at, number)


def _is_json(first: str) -> bool:
    """Return whether the text is JSON and not Kafka's CSV, where names may start the same."""
    first = first.lstrip()
    return first.startswith(("{", "[")) and not _ENDS_LIKE_CSV.search(first[-LARGEST_ROW:])


def _is_offset(first: str) -> bool:
    """Return whether the first line is a single offset, and not the start of a document."""
    return _object(first).data is msgspec.UNSET


def _object(text: str) -> _Object:
    """Return the fields that tell what an object is; empty data if it is none."""
    try:
        return msgspec.json.decode(text, type=_Object)
    except msgspec.DecodeError:
        return _Object(msgspec.Raw(b"[]"))


def _checked(
    row: _Row, place: _Place, number: int, *, offset: str = "committed_offset"
) -> StoredOffset:
    """Return the row, after verifying that it is a row of offsets, and its numbers are in range.

    Args:
        row: row as read.
        place: returns the place of a number, for errors.
        number: number of the row.
        offset: the file's name for the offset.

    Raises:
        InputError: it is a plan's row, or a number is out of range.
    """
    if row.target_offset is not msgspec.UNSET:
        raise InputError(
            f"{place(number)}: expected a committed offset, found a row of a plan (target_offset); "
            "to execute the plan, run the command that made it with --execute"
        )
    for name, value, most in (
        ("partition", row.partition, _MOST_INT),
        (offset, row.committed_offset, _MOST_LONG),
        ("leader_epoch", row.leader_epoch, _MOST_INT),
        ("commit_timestamp_ms", row.commit_timestamp_ms, _MOST_LONG),
    ):
        is_empty_commit = name == offset and value == NO_OFFSET
        if value is not None and not 0 <= value <= most and not is_empty_commit:
            raise InputError(
                f"{place(number)}.{name}: expected a number from 0 to {most}, found {value}"
            )
    return row
