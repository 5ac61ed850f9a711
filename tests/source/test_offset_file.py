"""Files of offsets: each form is read as what it says, and what is none is told with its place."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from kgroup.errors import InputError, NotFoundError
from kgroup.model.offset import CommittedOffset
from kgroup.model.pattern import parse_regex
from kgroup.source import offset_file
from kgroup.source.offset_file import OffsetFile

ROW = {
    "group_id": "g",
    "topic": "t",
    "partition": 1,
    "committed_offset": 7,
    "leader_epoch": 2,
    "metadata": "é",
    "commit_timestamp_ms": 1700000000000,
}
PLANNED = {**ROW, "partition": 2, "target_offset": 5, "result": "planned"}
WHOLE = CommittedOffset("t", 1, 7, 2, "é", 1700000000000)


MINUS_ONE = {**ROW, "topic": "t", "partition": 1, "committed_offset": -1}
MINUS_ONE_SOUGHT = {"topic": "t", "partition": 1, "offset": -1}


def document(*rows: object) -> str:
    return json.dumps({"command": "offsets show", "schema_version": 1, "data": rows, "errors": []})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "offsets"


def test_a_document_that_somebody_wrote(file: Path) -> None:
    file.write_text(json.dumps({"schema_version": 1, "data": [ROW]}))
    assert OffsetFile(file).read_offsets().offsets == {"g": (WHOLE,)}


@pytest.mark.parametrize("indent", [None, 2])
def test_a_document(file: Path, indent: int | None) -> None:
    file.write_text(json.dumps(json.loads(document(ROW)), indent=indent))
    assert OffsetFile(file).read_offsets().offsets == {"g": (WHOLE,)}


PAST = {
    "group_id": "g",
    "members": [],
    "offsets": [
        {**ROW, "lag": 3, "member_id": "m"},
        {**ROW, "partition": 0, "committed_offset": None},
        {"topic": None, "topic_id": "AAAA", "partition": 4, "committed_offset": None},
    ],
}


def past(*groups: object, version: int = 1) -> str:
    data = {"command": "history as-of", "schema_version": version, "data": groups, "errors": []}
    return json.dumps(data)


@pytest.mark.parametrize("indent", [None, 2])
def test_what_was_committed_at_a_time(file: Path, indent: int | None) -> None:
    """Of a partition without a commit at that time nothing is read: its commit is to stay."""
    file.write_text(json.dumps(json.loads(past(PAST)), indent=indent))
    reading = OffsetFile(file).read_offsets()
    assert (reading.offsets, reading.absent, reading.problems) == ({"g": (WHOLE,)}, {}, ())


def test_json_lines(file: Path) -> None:
    other = {**ROW, "group_id": "data", "topic": "data"}
    file.write_text(f"{json.dumps(other)}\n\n \t\r\n{json.dumps(ROW)}\n")
    offsets = OffsetFile(file).read_offsets().offsets
    assert {group: [offset.topic for offset in own] for group, own in offsets.items()} == {
        "data": ["data"],
        "g": ["t"],
    }


def test_what_a_row_need_not_have(file: Path) -> None:
    names = ("group_id", "topic", "partition", "committed_offset")
    file.write_text(json.dumps({name: ROW[name] for name in names}))
    assert OffsetFile(file).read_offsets().offsets == {"g": (CommittedOffset("t", 1, 7),)}


def test_what_was_not_committed_is_told(file: Path) -> None:
    file.write_text(document({**ROW, "committed_offset": None}, {**ROW, "partition": 0}))
    offsets = OffsetFile(file).read_offsets()
    assert offsets.absent == {"g": (("t", 1),)}
    assert [offset.partition for offset in offsets.offsets["g"]] == [0]


def test_offsets_are_sorted_and_groups_chosen(file: Path) -> None:
    file.write_text("b,t,1,5\na,t,0,4\nb,t,0,3\nab,u,0,1\n")
    store = OffsetFile(file)
    every = store.read_offsets().offsets
    assert list(every) == ["a", "ab", "b"]
    assert [offset.partition for offset in every["b"]] == [0, 1]
    assert list(store.read_offsets(["b", "x"]).offsets) == ["b"]
    assert list(store.read_offsets((), parse_regex("a.*")).offsets) == ["a", "ab"]
    assert list(store.read_offsets(["b"], parse_regex("ab")).offsets) == ["ab", "b"]
    assert store.read_offsets(()).offsets == {}


def test_offsets_without_a_group_are_those_of_the_only_one_named(file: Path) -> None:
    file.write_text("t,0,4\n")
    assert OffsetFile(file).read_offsets(["g"]).offsets == {"g": (CommittedOffset("t", 0, 4),)}
    with pytest.raises(InputError, match="name the group whose offsets these are"):
        OffsetFile(file).read_offsets(["g", "h"])


def test_a_byte_order_mark_is_none_of_the_text(file: Path) -> None:
    file.write_text("g,t,0,4\n", "utf-8-sig")
    assert list(OffsetFile(file).read_offsets().offsets) == ["g"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_what_powershell_writes(file: Path, encoding: str) -> None:
    mark = "" if encoding == "utf-16" else "\ufeff"
    file.write_bytes(f"{mark}gä,t,0,4\r\n".encode(encoding))
    assert list(OffsetFile(file).read_offsets().offsets) == ["gä"]


def test_half_a_character(file: Path) -> None:
    file.write_bytes("\ufeffg".encode("utf-16-le") + b"a")
    with pytest.raises(InputError, match="expected UTF-16-LE, found byte 0x61 at 4"):
        OffsetFile(file).read_offsets()


@pytest.mark.parametrize("name", ["{a", "[a"])
def test_csv_whose_first_name_begins_as_json_does(file: Path, name: str) -> None:
    file.write_text(f"{name},t,0,4\n")
    assert list(OffsetFile(file).read_offsets().offsets) == [name]


@pytest.mark.parametrize("indent", [None, 2])
def test_what_kcl_takes(file: Path, indent: int | None) -> None:
    """As the help of `kcl group seek` shows it."""
    rows = [{"topic": "foo", "partition": 1, "offset": 100}, {"topic": "foo", "partition": 0}]
    rows[1]["offset"] = 7
    file.write_text(json.dumps(rows, indent=indent))
    assert OffsetFile(file).read_offsets(["g"]).offsets == {
        "g": (CommittedOffset("foo", 0, 7), CommittedOffset("foo", 1, 100))
    }
    with pytest.raises(InputError, match="name the group of the offsets"):
        OffsetFile(file).read_offsets()
    for row, error in (
        ({"offset": -2}, r"\$\[2\].offset: expected a number from 0"),
        ({"offset": 1, "partition": 1}, "expected each partition once, found foo-1"),
        ({"offset": None}, r"\$\[2\].offset: expected int, found null"),
    ):
        file.write_text(json.dumps([*rows, {"topic": "foo", "partition": 2, **row}]))
        with pytest.raises(InputError, match=error):
            OffsetFile(file).read_offsets(["g"])


@pytest.mark.parametrize(
    "text",
    [
        "g,t,0,7\ng,t,1,-1\n",
        document({**MINUS_ONE, "partition": 0, "committed_offset": 7}, MINUS_ONE),
        json.dumps([{"topic": "t", "partition": 0, "offset": 7}, MINUS_ONE_SOUGHT]),
    ],
    ids=["csv", "document", "kcl"],
)
def test_minus_one_is_no_offset(file: Path, text: str) -> None:
    """As in answers to OffsetFetch; files that were exported may hold it."""
    file.write_text(text)
    reading = OffsetFile(file).read_offsets(["g"])
    assert [(o.partition, o.committed_offset) for o in reading.offsets["g"]] == [(0, 7)]
    assert reading.empty_commits == {"g": (("t", 1),)}
    assert reading.absent == {}, "nothing is deleted for it"


@pytest.mark.parametrize(
    "text",
    ["", "\n", "[]", '{"schema_version": 1, "data": []}', past(), "group,topic,partition,offset\n"],
)
def test_a_file_without_offsets_is_not_found(file: Path, text: str) -> None:
    file.write_text(text)
    with pytest.raises(NotFoundError, match=f"^{file}: the file has no offsets$"):
        OffsetFile(file).read_offsets()


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"g,t,0,x\n")))
    with pytest.raises(InputError, match=r"^standard input: line 1: offset: expected a whole"):
        OffsetFile(Path("-")).read_offsets()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("g,t,0,1\ng,u,0,1\ng,t,0,2", "line 3: expected each partition once, found t-0 of group "),
        ("{", "expected more, found the end of the file; copy the file, or write it, again"),
        ('{"a": 1}', "line 1: "),
        ('{"group_id": "\\udcff"}', "expected JSON, found invalid utf-16 surrogate pair"),
        (
            '{"data": [], "schema_version": 2}',
            r"\$.schema_version: expected 1, found 2: written by",
        ),
        ('{"data": [], "schema_version": 0}', r"\$.schema_version: expected 1, found 0$"),
        (
            '{"command": "offsets reset", "data": [], "schema_version": 1}',
            r"\$.command: expected \"offsets show\", found 'offsets reset', which is no file of",
        ),
        (past(PAST, version=2), r"\$.schema_version: expected 1, found 2: written by"),
        (past({"group_id": "g"}), r"\$\.data\[0\]: expected a field offsets, found none"),
        (
            past(PAST, {**PAST, "offsets": [{**ROW, "partition": -1}]}),
            r"\$\.data\[1\].offsets\[0\].partition: expected a number from 0",
        ),
        (past(PAST, PAST), r"data\[1\].offsets\[0\]: expected each partition once, found t-1"),
        ('{"schema_version": 1, "data": ' + "[" * 9999, "found JSON of too many levels"),
        ('{"a": 1}\n{"group_id": ' + "[" * 9999, "line 1: "),
        (json.dumps(ROW) + '\n{"a": ' + "[" * 9999, "found JSON of too many levels"),
        ('{"data": {}, "schema_version": 1}', r"\$.data: expected array, found object"),
        ('{"data": []}', r"expected a field schema_version, found none"),
        (json.dumps(PLANNED), "line 1: expected a committed offset, found a row of a plan"),
        (f"{json.dumps(ROW)}\n{json.dumps(PLANNED)}", "line 2: expected a committed offset"),
        (json.dumps({**PLANNED, "target_offset": None}), "line 1: expected a committed offset"),
        (document(PLANNED), r"\$.data\[0\]: expected a committed offset, found a row of a plan"),
        (document({**ROW, "partition": "1"}), r"\$.data\[0\].partition: expected int, found str"),
        (document(ROW, {**ROW, "partition": -1}), r"\$.data\[1\].partition: expected a number fro"),
        (
            document({**ROW, "committed_offset": -2}),
            r"\$.data\[0\].committed_offset: expected a nu",
        ),
        (document({**ROW, "committed_offset": 1 << 63}), r"committed_offset: expected a number"),
        (document({**ROW, "leader_epoch": -1}), r"leader_epoch: expected a number"),
        (document({"group_id": "g"}), r"\$.data\[0\]: expected a field topic, found none"),
        (
            f'{{"command":"offsets show","schema_version":1,"data":[\n{json.dumps(ROW)},\n]}}',
            r"expected a row behind '\{\"group_id\".*, found the end of \$\.data",
        ),
        (
            json.dumps(ROW) + "\n{",
            "line 2: expected more, found the end of the file; copy the file,",
        ),
        (json.dumps(ROW) + "\n[]", r"line 2: \$: expected object, found array"),
        ("\n" * 100_001, "expected offsets, found more than 100,000 empty lines"),
        ("g,t,0,1\n" + "\n" * 100_001, "expected offsets, found more than 100,000 empty lines"),
        (json.dumps(ROW) + "\n" + " \n" * 100_001, "found more than 100,000 empty lines"),
        ("[" + ",1" * 100_000, "line 1: expected an offset, found 200,001 characters in one line"),
        ("g,t,0,1\n" + "x" * 200_000, "line 2: expected an offset, found 200,000 characters"),
    ],
)
def test_what_is_none(file: Path, text: str, error: str) -> None:
    file.write_text(text)
    with pytest.raises(InputError, match=error) as caught:
        OffsetFile(file).read_offsets()
    assert str(caught.value).startswith(f"{file}: ")
    assert caught.value.path == str(file)


class _CountedLines(io.BytesIO):
    """Counts the lines that are read one by one."""

    count = 0

    def readline(self, size: int | None = -1, /) -> bytes:
        self.count += 1
        return super().readline(size)


@pytest.mark.parametrize(
    "begin", ["[", '{"schema_version":1,"data":[', '{"command":"offsets show","data":[{']
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_document_is_not_read_by_lines(
    monkeypatch: pytest.MonkeyPatch, begin: str, encoding: str
) -> None:
    """A million lines that end without an offset take no time."""
    data = _CountedLines(f"{begin}\n{' ' * 9}\n".encode(encoding) + b"\n" * 200_000)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(data))
    with pytest.raises(InputError):
        OffsetFile(Path("-")).read_offsets()
    assert data.count < 5


def test_more_than_is_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_file, "LARGEST", 8)
    file.write_text("g,t,0,1\n")
    assert list(OffsetFile(file).read_offsets().offsets) == ["g"]
    file.write_text("g,t,0,11\n")
    with pytest.raises(InputError, match="expected offsets of at most 8 bytes, found more"):
        OffsetFile(file).read_offsets()


def test_more_offsets_than_are_held(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of groups that are not asked for do not count."""
    monkeypatch.setattr(offset_file, "MOST_OFFSETS", 2)
    file.write_text("g,t,0,1\nh,t,0,1\ng,t,1,1\nh,t,1,1\n")
    assert len(OffsetFile(file).read_offsets(["g"]).offsets["g"]) == 2
    with pytest.raises(InputError, match="line 3: expected at most 2 offsets, found more"):
        OffsetFile(file).read_offsets()


def test_bytes_that_are_no_text(file: Path) -> None:
    file.write_bytes(b"g,t,0,1\n\xff")
    with pytest.raises(InputError, match="expected UTF-8, found byte 0xff at 8"):
        OffsetFile(file).read_offsets()


def test_no_such_file(file: Path) -> None:
    with pytest.raises(InputError, match="No such file or directory"):
        OffsetFile(file).read_offsets()
