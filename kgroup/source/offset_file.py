"""Offsets in a file: Kafka's CSV plans, and what `kgroup offsets show` writes as JSON, or by line.

Kafka's CSV has offsets and nothing else of them; JSON has all. Also read is what `kcl group seek
--to-file` takes: an array of objects with topic, partition and offset.
"""

import re
import sys
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import defaultdict
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from kgroup.errors import InputError, ProblemKind, UsageError
from kgroup.model.offset import NO_OFFSET, CommittedOffset, StoredOffset, StoreName, split_commits
from kgroup.model.pattern import Pattern
from kgroup.model.problem import Problem
from kgroup.protocol.kafka_csv import read_kafka_csv
from kgroup.source.base import OffsetReading
from kgroup.source.json_fault import json_fault
from kgroup.source.offset_change import At

__all__ = ["LARGEST", "OffsetFile"]

LARGEST = 1 << 30
"""Bytes that are read at most; ten million offsets have less."""

_STDIN = Path("-")
_BOM = "\ufeff"
_ENDS_LIKE_CSV = re.compile(r",\s*[0-9]+\s*,\s*[0-9]+\s*$")
_MOST_INT, _MOST_LONG = (1 << 31) - 1, (1 << 63) - 1


_COMMAND = "offsets show"
"""Whose documents hold offsets; a plan's have the same fields, and mean another thing."""


class _Row(StoredOffset, frozen=True, gc=False):
    """A row of JSON; a plan's has what shall be beside what is, and is no row of offsets."""

    target_offset: Any = msgspec.UNSET


class _Error(msgspec.Struct):
    """What could not be saved; a newer version may have further kinds."""

    kind: str
    reason: str
    group_id: str | None = None
    offsets_partition: int | None = None
    broker: int | None = None


class _Document(msgspec.Struct):
    """What is read of a document."""

    schema_version: int
    data: list[_Row]
    command: str = _COMMAND
    store: StoreName | None = None
    errors: list[_Error] = []


class _SeekRow(msgspec.Struct):
    """One of kcl's file; other fields mean nothing."""

    topic: str
    partition: int
    offset: int


class OffsetFile:
    """A store of offsets that is read only; implements `OffsetStore`.

    Args:
        path: of the file; - is standard input.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def read_offsets(
        self, group_ids: Collection[str] | None = None, regex: Pattern | None = None
    ) -> OffsetReading:
        """Read the file; see `OffsetStore`.

        Its problems are those that it was saved with. Offsets that name no group are those of the
        group that is named, if it is one.
        """
        names = None if group_ids is None and regex is None else set(group_ids or ())
        only = next(iter(names)) if names is not None and len(names) == 1 else None
        with self._named_errors():
            rows, document = _read(self._contents(), only)
            groups = _by_group(rows)
        offsets: dict[str, tuple[CommittedOffset, ...]] = {}
        empty_commits: dict[str, tuple[At, ...]] = {}
        absent: dict[str, tuple[At, ...]] = {}
        for group_id in sorted(groups):
            if names is None or group_id in names or (regex and regex.fullmatch(group_id)):
                of_group = [row for _, (row, _) in sorted(groups[group_id].items())]
                there, empty = split_commits(
                    CommittedOffset(
                        row.topic,
                        row.partition,
                        row.committed_offset,
                        row.leader_epoch,
                        row.metadata,
                        row.commit_timestamp_ms,
                    )
                    for row in of_group
                    if row.committed_offset is not None
                )
                if there:
                    offsets[group_id] = there
                if empty:
                    empty_commits[group_id] = empty
                if none := tuple(
                    (row.topic, row.partition) for row in of_group if row.committed_offset is None
                ):
                    absent[group_id] = none
        return OffsetReading(
            offsets,
            tuple(
                self._problem(error)
                for error in (document.errors if document else ())
                if error.kind != ProblemKind.NOT_FOUND  # of which there was nothing to save
                if regex or names is None or _concerns(error, names, names - groups.keys())
            ),
            absent=absent,
            saved_from=document.store if document else None,
            empty_commits=empty_commits,
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

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Let errors begin with what the file is called."""
        name = "standard input" if self._path == _STDIN else str(self._path)
        try:
            yield
        except OSError as error:
            raise InputError(f"{name}: {error.strerror or error}", path=str(self._path)) from None
        except InputError as error:
            raise InputError(f"{name}: {error}", path=str(self._path)) from None
        except RecursionError:
            text = f"{name}: expected offsets, found JSON of too many levels"
            raise InputError(text, path=str(self._path)) from None

    def _contents(self) -> str:
        if self._path == _STDIN:
            if sys.stdin.isatty():
                raise UsageError(
                    "standard input is a terminal; pipe or redirect a file of offsets into it"
                )
            data = sys.stdin.buffer.read(LARGEST + 1)
        else:
            with self._path.open("rb") as file:
                data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise InputError(f"expected offsets of at most {LARGEST:,} bytes, found more than that")
        try:
            if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):  # as `>` of PowerShell writes
                return data.decode("utf-16")
            return data.decode().removeprefix(_BOM)
        except UnicodeDecodeError as error:
            name, byte = error.encoding.upper(), data[error.start]
            text = f"expected {name}, found byte 0x{byte:02x} at {error.start}"
            raise InputError(text) from None


def _concerns(error: _Error, names: Collection[str], absent: Collection[str]) -> bool:
    """Tell whether an error may be why groups that were named are not, or not whole, in a file."""
    return bool(absent) if error.group_id is None else error.group_id in names


_Rows = Iterator[tuple[str, StoredOffset]]
"""Offsets, each with its place."""


def _by_group(rows: _Rows) -> dict[str, dict[At, tuple[StoredOffset, str]]]:
    """Give rows and their places by group and partition; the same one twice is an error."""
    groups: defaultdict[str, dict[At, tuple[StoredOffset, str]]] = defaultdict(dict)
    for where, row in rows:
        at = row.topic, row.partition
        of_group = groups[row.group_id]
        if at in of_group:
            raise InputError(
                f"{where}: expected each partition once, found {row.topic}-{row.partition} "
                f"of group {row.group_id!r} again, which is at {of_group[at][1]}"
            )
        of_group[at] = row, where
    return groups


def _read(text: str, group_id: str | None) -> tuple[_Rows, _Document | None]:
    """Read offsets in whichever form they are, and the document that holds them, if one does."""
    if not _is_json(text):
        return read_kafka_csv(text, group_id), None
    if text.lstrip().startswith("["):
        return _rows_of_array(text, group_id), None
    if _has_lines(text):
        return _rows_of_lines(text), None
    try:
        document = msgspec.json.decode(text, type=_Document)
    except msgspec.DecodeError as error:
        raise InputError(json_fault(error)) from None
    version = document.schema_version
    if version != 1:
        newer = ": written by a newer version of kgroup, which can read it"
        raise InputError(
            f"$.schema_version: expected 1, found {version}{newer if version > 1 else ''}"
        )
    if document.command != _COMMAND:
        raise InputError(
            f'$.command: expected "{_COMMAND}", found {document.command[:40]!r}, which is no '
            "file of offsets"
        )
    return _rows_of_document(document), document


def _rows_of_document(document: _Document) -> _Rows:
    for number, row in enumerate(document.data):
        where = f"$.data[{number}]"
        yield where, _checked(row, where)


def _rows_of_array(text: str, group_id: str | None) -> _Rows:
    try:
        rows = msgspec.json.decode(text, type=list[_SeekRow])
    except msgspec.DecodeError as error:
        raise InputError(json_fault(error)) from None
    if rows and group_id is None:
        raise InputError(
            "expected groups, found an array of offsets without: name the group whose they are"
        )
    for number, row in enumerate(rows):
        where = f"$[{number}]"
        told = _Row(group_id or "", row.topic, row.partition, row.offset)
        yield where, _checked(told, where, offset="offset")


def _rows_of_lines(text: str) -> _Rows:
    decoder = msgspec.json.Decoder(_Row)
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            where = f"line {number}"
            try:
                row = decoder.decode(line)
            except msgspec.DecodeError as error:
                raise InputError(f"{where}: {json_fault(error)}") from None
            yield where, _checked(row, where)


def _is_json(text: str) -> bool:
    """Tell JSON from Kafka's CSV, in which a name may begin likewise."""
    first, _, _ = text.lstrip().partition("\n")
    return first.startswith(("{", "[")) and not _ENDS_LIKE_CSV.search(first)


def _has_lines(text: str) -> bool:
    """Tell whether JSON is an offset a line, and not one document."""
    first, _, _ = text.lstrip().partition("\n")
    try:
        head = msgspec.json.decode(first)
    except msgspec.DecodeError:
        return False
    return isinstance(head, dict) and "data" not in head


def _checked(row: _Row, where: str, *, offset: str = "committed_offset") -> StoredOffset:
    """See that a row is one of offsets, and numbers are what Kafka can have.

    Args:
        row: as it was read.
        where: it is, for errors.
        offset: what the file calls the offset.

    Raises:
        InputError: it is not, or one is not.
    """
    if row.target_offset is not msgspec.UNSET:
        raise InputError(
            f"{where}: expected what is committed, found a plan's row (target_offset), which says "
            "what shall be; the command that made the plan does it with --execute"
        )
    for name, value, most in (
        ("partition", row.partition, _MOST_INT),
        (offset, row.committed_offset, _MOST_LONG),
        ("leader_epoch", row.leader_epoch, _MOST_INT),
        ("commit_timestamp_ms", row.commit_timestamp_ms, _MOST_LONG),
    ):
        is_empty_commit = name == offset and value == NO_OFFSET
        if value is not None and not 0 <= value <= most and not is_empty_commit:
            raise InputError(f"{where}.{name}: expected a number from 0 to {most}, found {value}")
    return row
