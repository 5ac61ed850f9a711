r"""Offsets in the format of `kafka-consumer-groups --reset-offsets --export` and `--from-file`.

Also read are the table that the tool prints without `--export`, and the input of `rpk group seek
--to-file`: the same with blanks in place of commas.

    topic,partition,offset            for one named group
    group,topic,partition,offset      for several or all groups, whatever their number

There is one row per line. A header is skipped, and so are the tool's warnings about empty
partitions between the rows. As in Jackson, which Kafka's tool has used since 2.8, a string is
quoted if it is longer than 24 characters, or has a backslash or a character below "-"; before 2.8
nothing was quoted. Only line feeds end lines: a carriage return may appear between quotes.

Source: `ConsumerGroupCommand` and `CsvUtils` of Kafka 4.3.1; `CsvEncoder` of Jackson 2.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator

from kgroup.errors import InputError, UsageError
from kgroup.model.offset import NO_OFFSET, StoredOffset

_UNQUOTED = 24
"""Maximum characters of a string that Jackson checks for whether it needs quotes."""
_LEAST = "-"
_BOM = "\ufeff"
_HEAD = re.compile(
    r"((group|group_id)[ ,]+)?topic[ ,]+partition[ ,]+(offset|new-offset|committed_offset)"
)
"""Names of the columns, without quotes and in lower case."""
_EMPTY = re.compile(r"Warn: Partition \d+ from topic \S+ is empty\. Falling back to .*")
"""Warning about a partition that `--to-datetime` and `--by-duration` write to standard output."""
_MOST_PARTITION, _MOST_OFFSET = (1 << 31) - 1, (1 << 63) - 1


def kafka_csv_lines(rows: Iterable[StoredOffset], *, with_group: bool) -> Iterator[bytes]:
    """Yield one line per offset; offsets of None cannot be written and are left out.

    Raises:
        UsageError: a name has a line break, at which Kafka's tool would split the line, or is not
            valid Unicode.
    """
    for row in rows:
        if row.committed_offset is None:
            continue
        texts = (row.group_id, row.topic) if with_group else (row.topic,)
        for text in texts:
            _check(text)
        names = ",".join(map(_quoted, texts))
        yield f"{names},{row.partition},{row.committed_offset}\n".encode()


def read_kafka_csv(
    lines: Iterable[str], group_id: str | None
) -> Iterator[tuple[int, StoredOffset]]:
    """Yield each offset with its line number.

    Args:
        lines: lines of the file, without line feeds.
        group_id: group of the rows without a group.

    Raises:
        InputError: a line has neither of the two forms; the message has its number, not the file
            name.
    """
    may_be_head = True
    for number, line in enumerate(lines, 1):
        text = line.removesuffix("\r")
        if not text.strip() or (text.startswith("Warn") and _EMPTY.fullmatch(text)):
            continue
        is_head = may_be_head and _HEAD.fullmatch(text.replace('"', "").strip().lower())
        may_be_head = False
        if is_head:
            continue
        where = f"line {number}"
        is_plain = '"' not in text and "\r" not in text
        try:
            if "," not in text:
                fields = text.split()
            elif is_plain:
                fields = text.split(",")
            else:
                fields = next(csv.reader([text], strict=True))
        except csv.Error as error:
            raise InputError(f"{where}: expected CSV, found {line[:80]!r}: {error}") from None
        if len(fields) not in (3, 4):
            raise InputError(
                f"{where}: expected topic,partition,offset or group,topic,partition,offset (or "
                f"blanks in the place of commas), found {line[:80]!r}"
            )
        group = fields[0] if len(fields) == 4 else group_id
        if group is None:
            raise InputError(
                f"{where}: expected group,topic,partition,offset, found three fields: name the "
                "group whose offsets these are"
            )
        topic, partition, offset = fields[-3:]
        numbers = (
            _number(partition, _MOST_PARTITION, where, "partition"),
            NO_OFFSET
            if offset.strip() == str(NO_OFFSET)
            else _number(offset, _MOST_OFFSET, where, "offset"),
        )
        yield number, StoredOffset(group, topic, *numbers)


def _check(name: str) -> None:
    """Raise a UsageError if a name cannot be written."""
    what = "without a line break"
    if "\n" not in name:
        try:
            name.encode()
        except UnicodeEncodeError:
            what = "of Unicode characters, without half of a surrogate pair"
        else:
            return
    raise UsageError(
        f"{name!r}: expected a name {what}, which Kafka's CSV cannot hold; choose --format json"
    )


def _quoted(text: str) -> str:
    is_short = len(text.encode("utf-16-le")) // 2 <= _UNQUOTED
    # At the start of a file, a byte order mark belongs to the name only if it is quoted.
    is_plain = all(char >= _LEAST and char != "\\" for char in text)
    if is_short and is_plain and not text.startswith(_BOM):
        return text
    return '"' + text.replace('"', '""') + '"'


def _number(text: str, most: int, where: str, what: str) -> int:
    digits = text.strip()
    if digits.isdecimal() and digits.isascii() and len(digits) < 20:
        number = int(digits)
        if number <= most:
            return number
    raise InputError(
        f"{where}: {what}: expected a whole number from 0 to {most}, found {text[:80]!r}"
    )
