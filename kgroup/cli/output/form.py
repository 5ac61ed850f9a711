"""The forms of output, and what the output options say of them."""

from __future__ import annotations

from dataclasses import dataclass

FORMS = (
    *("table", "json", "jsonl", "csv", "tsv"),
    *("markdown", "github", "html", "rst", "latex", "jira", "mediawiki", "asciidoc", "grid"),
)
"""Tables of the second row are for documents; see `kgroup.render.markup.MARKUPS`."""


@dataclass(frozen=True, slots=True)
class Output:
    """What the output options say.

    Attributes:
        form: one of `FORMS`.
        columns: names chosen, in order; empty: those that the form has by default.
        headers: whether tables, csv and tsv begin with the names of their columns.
    """

    form: str
    columns: tuple[str, ...]
    headers: bool
