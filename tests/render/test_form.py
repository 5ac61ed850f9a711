"""What a page looks like in each form, part by part."""

from __future__ import annotations

import re

import pytest

from kgroup.render.cell import Column, Kind
from kgroup.render.form import page_text
from kgroup.render.sheet import (
    Either,
    Head,
    Lines,
    Part,
    Prose,
    Sheet,
    Title,
    apart,
    facts,
    section,
)

NAMES = (Column("name", Kind.NAME, ""),)
PAGE: list[Part] = [
    Title("Group g"),
    Either((Prose("one\ntwo"),), ("document\n",)),
    *section("Sheets", Sheet(NAMES, [["a"]]), "\n", Sheet(NAMES, [["b"]], Head.ALWAYS)),
    "\n",
    facts([["run", "x"]]),
]
TABLE = """\
Group g
one
two

Sheets
{}a

name
b

run  x
"""
MARKDOWN = """\
## Group g

document

### Sheets

{}| a      |

| name   |
|:-------|
| b      |

| part   | text   |
|:-------|:-------|
| run    | x      |
"""


@pytest.mark.parametrize("headers", [True, False])
def test_a_page(headers: bool) -> None:
    head = "name\n" if headers else ""
    assert "".join(page_text(PAGE, headers=headers)) == TABLE.format(head)
    head = "| name   |\n|:-------|\n" if headers else ""
    text = "".join(page_text(PAGE, "markdown", headers=headers))
    assert re.sub(" +", " ", text) == re.sub(" +", " ", MARKDOWN.format(head))


def test_a_terminal_has_colours() -> None:
    parts: list[Part] = [
        Title("a"),
        Title("b", warns=True),
        Lines([[("c", ""), ("d", "bold")], []]),
    ]
    text = "".join(page_text(parts, terminal=True))
    assert text == "\x1b[1ma\x1b[0m\n\x1b[1;31mb\x1b[0m\nc\x1b[1md\x1b[0m\n\n"
    assert "".join(page_text(parts)) == "a\nb\ncd\n\n"


def test_pages_stand_apart() -> None:
    assert [*apart([["a"], ["b", "c"], []])] == ["a", "\n", "b", "c", "\n"]
