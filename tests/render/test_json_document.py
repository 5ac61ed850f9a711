from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum

from hypothesis import given
from hypothesis import strategies as st

from kgroup.render.cell import HARMFUL
from kgroup.render.json_document import SCHEMA_VERSION, json_document, json_on_terminal, json_rows


class State(StrEnum):
    STABLE = "Stable"


@dataclass(frozen=True, slots=True)
class Row:
    group_id: str
    state: State | None
    topics: tuple[str, ...]


def test_json_rows_writes_a_dataclass_a_line_in_the_order_of_its_fields() -> None:
    rows = [Row("a\nb", State.STABLE, ("t",)), Row("ü", None, ())]
    assert b"".join(json_rows(rows)).decode() == (
        '{"group_id":"a\\nb","state":"Stable","topics":["t"]}\n'
        '{"group_id":"ü","state":null,"topics":[]}\n'
    )


def test_document() -> None:
    rows = [Row("a\nb", State.STABLE, ("t",)), Row("c", None, ())]
    text = b"".join(json_document("list", json_rows(rows), [{"kind": "torn-tail"}]))
    assert json.loads(text) == {
        "command": "list",
        "schema_version": SCHEMA_VERSION,
        "data": [
            {"group_id": "a\nb", "state": "Stable", "topics": ["t"]},
            {"group_id": "c", "state": None, "topics": []},
        ],
        "errors": [{"kind": "torn-tail"}],
    }
    assert list(json.loads(text)) == ["command", "schema_version", "data", "errors"]


def test_document_takes_blocks_of_many_lines_and_empty_blocks() -> None:
    blocks: list[bytes | memoryview] = [b"", b'{"a":1}\n{"a":2}\n', b"", memoryview(b'{"a":3}\n')]
    assert json.loads(b"".join(json_document("x", blocks, [])))["data"] == [
        {"a": 1},
        {"a": 2},
        {"a": 3},
    ]


def test_empty_document() -> None:
    assert json.loads(b"".join(json_document("x", [b""], []))) == {
        "command": "x",
        "schema_version": SCHEMA_VERSION,
        "data": [],
        "errors": [],
    }


def test_errors_are_read_after_the_rows() -> None:
    errors: list[dict[str, str]] = []

    def lines() -> object:
        yield b"{}\n"
        errors.append({"kind": "late"})

    text = b"".join(json_document("x", lines(), errors))  # type: ignore[arg-type]
    assert json.loads(text)["errors"] == [{"kind": "late"}]


def test_a_file_name_that_is_no_utf_8() -> None:
    name = b"caf\xe9.log".decode(errors="surrogateescape")
    (line,) = json_rows([Row(name, State.STABLE, ("t",))])
    assert line == b'{"group_id":"caf\\udce9.log","state":"Stable","topics":["t"]}\n'
    assert json.loads(line)["group_id"] == name


@given(
    st.lists(st.text(st.sampled_from('a\x7f\x9b\x1b\n\u202e\ufeff\u2028"\\\ud800日')) | st.text())
)
def test_json_on_a_terminal_is_the_same_and_harmless(texts: list[str]) -> None:
    lines = b"".join(json_rows(texts))
    shown = json_on_terminal(lines)
    assert [json.loads(line) for line in shown.split("\n")[:-1]] == texts
    assert not HARMFUL.search(shown.replace("\n", ""))


def test_rows_that_are_there_are_written_in_blocks_and_others_as_they_come() -> None:
    rows = list(range(2001))
    blocks = list(json_rows(rows))
    assert len(blocks) < 10
    assert [json.loads(line) for line in b"".join(blocks).splitlines()] == rows
    coming = json_rows(iter(rows))
    assert [next(coming), next(coming)] == [b"0\n", b"1\n"]
