"""Documents: their readers show what tables show."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import pytest

from kgroup.render.cell import Column, Kind, cell
from kgroup.render.form import page_text
from kgroup.render.markup import MARKUPS
from kgroup.render.sheet import Sheet, Title, section
from tests.examples import examples
from tests.render.random_report import RandomReport
from tests.render.read_markup import LANGUAGES, Part, read, squeezed

COLUMNS = (
    Column("group_id", Kind.NAME, ""),
    Column("lag", Kind.NUMBER, ""),
    Column("metadata", Kind.TEXT, ""),
)
ROWS = [("orders", 5, "a|b"), ("日本", None, ""), ("c", 1234, "*")]


def document(form: str, parts: Sequence[str | Sheet], *, headers: bool = True) -> str:
    """Write tables, and headings, the first of them of level 2, with a blank line before others."""
    page: list[Any] = []
    for part in parts:
        if isinstance(part, Sheet):
            page.append(part)
        else:
            page += section(part) if page else [Title(part)]
    return "".join(page_text(page, form, headers=headers))


def shown(parts: Sequence[str | Sheet], *, headers: bool = True) -> Iterator[Part]:
    """What people see of them."""
    for part in parts:
        if isinstance(part, str):
            yield squeezed(part)
            continue
        kinds = [column.kind for column in part.columns]
        head = [[column.title for column in part.columns]] if headers else []
        rows = [[cell(*pair) for pair in zip(row, kinds, strict=True)] for row in part.rows]
        yield [[*map(squeezed, row)] for row in head + rows]


@pytest.mark.parametrize("form", MARKUPS)
def test_a_document(form: str) -> None:
    parts = ("Group *", Sheet(COLUMNS, ROWS))
    text = document(form, parts)
    assert text == LANGUAGES[form].sample.removeprefix("\n")
    assert read(form, text) == [*shown(parts)]


MEANING = (
    *re.split(
        "(?:  |\n)+",
        r"""-  --  ---  ----  - a  -a  --a  -a-  a -- b  a--b  +  + a  +a+  ++a++  *  **  * a
*a*  **a**  /orders.*/  a*b*c  _  _a_  __a__  a_  a__  a_b_c  __TOC__  __consumer_offsets  `  `a`
``a``  `a`_  'a'  ''a''  '''a'''  "a"  a's  #  # a  a #  ##a##  1. a  1.  a. b  (1) a  iv) a  #. a
. a  ..  .. a::  ...  :  ::  a::  :a: b  ;  ; a  >  >>> a  > a  <a>  <!--  <<a>>  <http://a.b>  =
==  ====  = a =  a =  ~  ~~a~~  ~a~  ~~~~  ^  ^a^  ^^^^  |  ||  |-  |}  |+  |====  !  !!  !a!
![a](b)  [a](b)  [a]  [[a]]  [a]_  [^1]  [a  ]  {  }  {a}  {{a}}  {{{a}}}  {|  -{a}-  {code}  $
$a$  $$a$$  %  %a  &  &amp;  &#42;  &nbsp;  \  \\  \\\\  \*  a\  \n  \ a  h1. a  bq. a  :)  ;-)
&)  (!)  (y)  (C)  (TM)  ((a))  :D  :P  ??a??  ->  =>  <=  http://a.b/?c&d_  a@b.c  a,,b  ?`a  2+
3*  a|  .2+  <.>m  @  /  //a//""",
    ),
    *("-# a", "## a", "#- a"),  # lists in lists
    *("\u00a0", "a  b", "e\u0301", "e\u0301_", "日_本_", "\U0001f600"),
)
"""Texts that mean something in one of the languages."""


@pytest.mark.slow
@pytest.mark.parametrize("form", MARKUPS)
def test_what_means_something_is_a_text(form: str) -> None:
    parts: list[str | Sheet] = []
    for text in MEANING:
        rows = [(text, 5, text), ("a", None, f"{text} b"), (f"a{text}", 5, f"a {text}")]
        parts += [f"Group {text}", Sheet(COLUMNS, rows)]
        parts += [f"{text}.", Sheet((Column(text, Kind.TEXT, ""),), [(text,)])]
    found = read(form, document(form, parts))
    for part, expected in zip(found, shown(parts), strict=True):
        assert part == expected


@pytest.mark.slow
@pytest.mark.parametrize("form", MARKUPS)
def test_any_document(form: str) -> None:
    for seed in range(examples(40)):
        report = RandomReport(Random(seed))
        rows = [(report.text(), seed, report.text()) for _ in range(3)]
        titles = [cell(f"{report.text()} of a group", Kind.TEXT) for _ in range(2)]
        names = (Column(f"n{report.text()}", Kind.TEXT, ""), *COLUMNS[:2])
        parts = (titles[0], Sheet(COLUMNS, rows), titles[1], Sheet(names, rows[:1]))
        written = document(form, parts)
        assert read(form, written) == [*shown(parts)], written


@pytest.mark.parametrize("form", MARKUPS)
def test_a_table_without_rows(form: str) -> None:
    """A language that has no such tables has a blank row."""
    (table,) = read(form, document(form, [Sheet(COLUMNS, [])]))
    assert table[0] == [column.title for column in COLUMNS]
    assert table[1:] == ([[""] * 3] if LANGUAGES[form].needs_row else [])


@pytest.mark.parametrize("form", sorted(MARKUPS.keys() - {"markdown", "github"}))
def test_a_table_without_a_head(form: str) -> None:
    parts = [Sheet(COLUMNS, ROWS)]
    assert read(form, document(form, parts, headers=False)) == [*shown(parts, headers=False)]


@pytest.mark.parametrize("form", ["markdown", "github"])
def test_rows_of_markdown_without_a_head_stand_alone(form: str) -> None:
    text = document(form, [Sheet(COLUMNS, ROWS)], headers=False)
    assert len(text.splitlines()) == len(ROWS)
    head = "| a | b | c |\n| --- | --- | --- |\n"
    (table,) = read(form, head + text)
    assert [table[1:]] == [*shown([Sheet(COLUMNS, ROWS)], headers=False)]
