"""Readers of documents, after the rules of each language: headings and tables, in their order.

A heading is a text, a table a list of rows, its head among them. A reader fails where a text means
something else than itself: an emphasis, a link, a macro.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any
from unicodedata import east_asian_width

Part = str | list[list[str]]


def squeezed(text: str) -> str:
    """Take blanks as readers do."""
    return " ".join(text.split())


def _read_markdown(document: str) -> Iterator[Part]:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    rows: list[list[str]] = []
    is_heading = False
    for token in parser.parse(document):
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            assert {child.type for child in token.children or ()} <= {"text", "text_special"}
            assert not re.search(r"(?<!\\)\$", token.content)  # GitHub has formulas
            text = "".join(child.content for child in token.children or ())
            if is_heading:
                yield text
            else:
                rows[-1].append(text)
        elif token.type == "table_close":
            yield rows
            rows = []
        is_heading = token.type == "heading_open"


class _Html(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.parts: list[Any] = []
        self._text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "table":
            self.parts.append([])
        elif tag == "tr":
            self.parts[-1].append([])
        else:
            assert tag in ("th", "td", "thead", "tbody", "h2", "h3"), tag
        self._text = ""

    def handle_endtag(self, tag: str) -> None:
        if tag in ("th", "td"):
            self.parts[-1][-1].append(self._text)
        elif tag in ("h2", "h3"):
            self.parts.append(self._text)

    def handle_data(self, data: str) -> None:
        self._text += data


def _read_html(document: str) -> list[Part]:
    parser = _Html()
    parser.feed(document)
    parser.close()
    return parser.parts


def _read_rst(document: str) -> Iterator[Part]:
    from docutils import nodes
    from docutils.core import publish_doctree

    settings = {"halt_level": 2, "report_level": 5, "doctitle_xform": False}
    tree = publish_doctree(f"Document\n########\n\n{document}", settings_overrides=settings)

    def text_of(node: Any) -> str:
        for each in node.findall():
            assert (
                isinstance(each, nodes.Text | nodes.reference | nodes.paragraph) or each is node
            ), each
        return str(node.astext())

    for node in tree.findall(lambda each: isinstance(each, nodes.title | nodes.table)):
        if isinstance(node, nodes.table):
            rows = node.findall(nodes.row)
            entries = [[*row.findall(nodes.entry)] for row in rows]
            for comment in [*node.findall(nodes.comment)]:  # two dots: nothing is in a first cell
                comment.parent.remove(comment)
            yield [[text_of(entry) for entry in row] for row in entries]
        elif node.astext() != "Document":
            yield text_of(node)


def _read_latex(document: str) -> Iterator[Part]:
    from pylatexenc.latex2text import LatexNodes2Text, MacroTextSpec, get_default_latex_context_db
    from pylatexenc.latexwalker import LatexWalker

    known = get_default_latex_context_db()
    own = {"textbar": "|", "textasciicircum": "^", "textless": "<", "textgreater": ">"}
    macros = [MacroTextSpec(name, text) for name, text in own.items()]
    known.add_context_category("own", macros=macros, prepend=True)
    writer = LatexNodes2Text(known, strict_latex_spaces=False)

    def source_of(nodes: Iterable[Any]) -> str:
        return "".join(node.latex_verbatim() for node in nodes)

    def text_of(nodes: Iterable[Any]) -> str:
        assert not re.search(r"[<>|^]|(?<!\\)[#_]|,,", source_of(nodes)), source_of(nodes)
        return str(writer.nodelist_to_text(nodes))

    nodes, _, _ = LatexWalker(document, tolerant_parsing=False).get_latex_nodes()
    for node in nodes:
        name = getattr(node, "macroname", None) or getattr(node, "environmentname", None)
        if name in ("section", "subsection"):
            yield text_of(node.nodeargd.argnlist[-1].nodelist)
        elif name == "tabular":
            rows: list[list[list[Any]]] = [[[]]]
            for each in node.nodelist:
                macro, special = getattr(each, "macroname", ""), getattr(each, "specials_chars", "")
                if macro == "\\":
                    assert not each.nodeargd or not any(each.nodeargd.argnlist)
                    rows.append([[]])
                elif special == "&":
                    rows[-1].append([])
                elif macro != "hline":
                    rows[-1][-1].append(each)
            yield [[text_of(cell) for cell in row] for row in rows[:-1]]
            assert not any(row[0] and re.match(r"\s*[*[]", source_of(row[0])) for row in rows)


def _read_mediawiki(document: str) -> Iterator[Part]:
    from mwparserfromhell import parse
    from mwparserfromhell.nodes import ExternalLink, Heading, HTMLEntity, Tag, Text

    def text_of(code: Any) -> str:
        for node in code.nodes:
            assert isinstance(node, Text | HTMLEntity) or (
                isinstance(node, ExternalLink) and not node.brackets
            ), node
        assert not re.search(r"__[A-Z]+__|''|~~~|[\[{<]", str(code)), code
        return str(code.strip_code(normalize=True, collapse=False))

    for node in parse(document).nodes:
        if isinstance(node, Heading):
            yield text_of(node.title)
        elif isinstance(node, Tag):
            assert node.tag == "table"
            rows = [tag for tag in node.contents.nodes if isinstance(tag, Tag) and tag.tag == "tr"]
            cells = [[*row.contents.filter_tags(recursive=False)] for row in rows]
            assert {str(tag.tag) for row in cells for tag in row} <= {"th", "td"}
            yield [[text_of(tag.contents) for tag in row] for row in cells if row]


_JIRA_MARKUP = re.compile(
    r"""[\\{}\[] | !\S | \?\? | --                           # macros, links, images, dashes
    | (?<![^\W_])([*_+^~-])(?=\S)(?:[^\1]*?\S)?\1(?![^\W_])   # phrases
    | :[()DPp] | ;\) | \((?:[!?/x+*-]|on|off|[yni*])\)         # emoticons
    | ^(?:[*#-]+\s|h[1-6]\.|bq\.)                           # lists, headings, quotations
    """,
    re.VERBOSE,
)


def _read_jira(document: str) -> Iterator[Part]:
    def text_of(text: str) -> str:
        assert not _JIRA_MARKUP.search(text.strip()), text
        assert not re.search(r"[<>]|&(?!#\d+;)", text), text
        return unescape(text)

    for paragraph in document.split("\n\n"):
        if match := re.fullmatch(r"h[23]\. (.*)\n?", paragraph):
            yield text_of(match[1])
        elif paragraph:
            lines = paragraph.strip("\n").split("\n")
            cells = [re.split(r"\|\||\|", line)[1:-1] for line in lines]
            yield [[text_of(cell) for cell in row] for row in cells]


_ASCIIDOC_MARKUP = re.compile(
    r"""[\\{+`$'] | \[                                       # escapes, attributes, passes, macros
    | (?<![\w&;:}])([*_\#])(?=\S)(?:.*?\S)?\1(?!\w) | \*\*.+?\*\* | __.+?__ | \#\#.+?\#\#
    | \^\S+?\^ | ~\S+?~                                      # phrases
    | \((?:C|R|TM)\) | \(\( | -- | \.\.\. | [-=]> | <[-=<]    # replacements, terms, references
    """,
    re.VERBOSE,
)


def _read_asciidoc(document: str) -> Iterator[Part]:
    def text_of(text: str) -> str:
        bare = re.sub(r"&#\d+;", "\0", text)
        assert not _ASCIIDOC_MARKUP.search(bare), text
        assert not re.search(r"[&<>]", bare), text
        return unescape(text)

    def rows_of(lines: list[str]) -> list[list[str]]:
        found = []
        for line in lines:
            assert line.startswith("|")
            cells = line[1:].split("|")
            # what stands before a bar, behind a blank, may say how the next cell is to be read
            assert not any(
                re.search(r"\s[\d.*+<^>]*[a-z]?$", cell.rstrip("\n")) and cell[-1] != " "
                for cell in cells
            )
            found.append([text_of(cell) for cell in cells])
        return found

    for paragraph in re.split(r"\n{2,}", document):
        if match := re.fullmatch(r"={2,3} (.*)\n?", paragraph):
            yield text_of(match[1])
        elif paragraph:
            attributes, first, *lines, last = paragraph.strip("\n").split("\n")
            assert re.fullmatch(r'\[cols="[<>0-9,]+"(,options="header")?\]', attributes)
            assert first == last == "|===="
            yield rows_of(lines)


def _read_grid(document: str) -> Iterator[Part]:
    """Read a drawing by the places of its bars; characters take one cell, two, or none."""
    for paragraph in document.split("\n\n"):
        lines = [[*_cells(line)] for line in paragraph.strip("\n").split("\n")]
        if not "".join(lines[0]).startswith("+-"):
            if paragraph:
                yield paragraph
            continue
        bars = [at for at, character in enumerate(lines[0]) if character == "+"]
        rows = []
        for line in lines:
            assert len(line) == len(lines[0])
            assert all(line[at] == line[0] for at in bars)
            if line[0] == "|":
                rows.append(["".join(line[a + 1 : b]) for a, b in pairwise(bars)])
        yield rows


def _cells(line: str) -> Iterator[str]:
    """Yield what each cell of a line shows."""
    for cluster in re.findall(r".[\u0300-\u036f]*", line):
        yield cluster
        if east_asian_width(cluster[0]) in "WF":
            yield ""


@dataclass(frozen=True, slots=True)
class Language:
    """A form of documents.

    Attributes:
        read: reads one.
        sample: a heading "Group *", and a table of three rows, as they are to be written.
        needs_row: whether it has no tables of a head alone.
    """

    read: Callable[[str], Iterator[Part] | list[Part]]
    sample: str
    needs_row: bool = False


_MARKDOWN = Language(
    _read_markdown,
    r"""
## Group \*

| group_id   |   lag | metadata   |
|:-----------|------:|:-----------|
| orders     |     5 | a\|b       |
| 日本       |     - |            |
| c          |  1234 | \*         |
""",
)
LANGUAGES: Mapping[str, Language] = {
    "markdown": _MARKDOWN,
    "github": _MARKDOWN,
    "html": Language(
        _read_html,
        """
<h2>Group *</h2>
<table>
<thead>
<tr><th>group_id  </th><th style="text-align: right;">  lag</th><th>metadata  </th></tr>
</thead>
<tbody>
<tr><td>orders    </td><td style="text-align: right;">    5</td><td>a|b       </td></tr>
<tr><td>日本      </td><td style="text-align: right;">    -</td><td>          </td></tr>
<tr><td>c         </td><td style="text-align: right;"> 1234</td><td>*         </td></tr>
</tbody>
</table>
""",
    ),
    "rst": Language(
        _read_rst,
        r"""
Group \*
========

==========  =====  ==========
group_id      lag  metadata
==========  =====  ==========
orders          5  a\|b
日本           \-  ..
c            1234  \*
==========  =====  ==========
""",
        needs_row=True,
    ),
    "latex": Language(
        _read_latex,
        r"""
\section*{Group *}

\begin{tabular}{lrl}
\hline
 group\_id   &   lag & metadata     \\
\hline
 orders      &     5 & a\textbar{}b \\
 日本        &     - &              \\
 c           &  1234 & {*}          \\
\hline
\end{tabular}
""",
        needs_row=True,
    ),
    "jira": Language(
        _read_jira,
        """
h2. Group &#42;

|| group_id   ||   lag || metadata   ||
| orders     |     5 | a&#124;b   |
| 日本       |     - |            |
| c          |  1234 | &#42;      |
""",
    ),
    "mediawiki": Language(
        _read_mediawiki,
        """
== Group * ==

{| class="wikitable" style="text-align: left;"
|+ <!-- caption -->
|-
! group_id   !! style="text-align: right;"|   lag !! metadata
|-
| orders     || style="text-align: right;"|     5 || a&#124;b
|-
| 日本       || style="text-align: right;"|     - ||
|-
| c          || style="text-align: right;"|  1234 || *
|}
""",
    ),
    "asciidoc": Language(
        _read_asciidoc,
        """
== Group &#42;

[cols="<12,>7,<12",options="header"]
|====
| group_id   |   lag | metadata   
| orders     |     5 | a&#124;b   
| 日本       |     - |            
| c          |  1234 | &#42;      
|====
""",  # noqa: W291
    ),
    "grid": Language(
        _read_grid,
        """
Group *

+------------+-------+------------+
| group_id   |   lag | metadata   |
+============+=======+============+
| orders     |     5 | a|b        |
+------------+-------+------------+
| 日本       |     - |            |
+------------+-------+------------+
| c          |  1234 | *          |
+------------+-------+------------+
""",
    ),
}


def read(form: str, document: str) -> list[Part]:
    """Read a document in one of the languages, with single blanks."""
    return [
        squeezed(part) if isinstance(part, str) else [[*map(squeezed, row)] for row in part]
        for part in LANGUAGES[form].read(document)
    ]
