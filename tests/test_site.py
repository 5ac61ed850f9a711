"""Pages of the documentation: each is in the site's navigation, and every link leads somewhere."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SETTINGS = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
PAGES = sorted(DOCS.rglob("*.md"))
LINKING = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES]


@cache
def tokens(page: Path) -> list[Token]:
    return MarkdownIt().enable("table").parse(page.read_text("utf-8"))


def in_navigation(entries: Any) -> Iterator[str]:
    if isinstance(entries, str):
        yield entries
    else:
        for entry in entries.values() if isinstance(entries, dict) else entries:
            yield from in_navigation(entry)


def links(page: Path) -> Iterator[str]:
    for token in tokens(page):
        for child in token.children or []:
            target = child.attrGet("href") or child.attrGet("src")
            if target is not None and not re.match(r"[a-z]+:", str(target)):
                yield str(target)


def headings(page: Path) -> Iterator[str]:
    parsed = tokens(page)
    for opening, inline in pairwise(parsed):
        if opening.type == "heading_open":
            yield "".join(child.content for child in inline.children or [])


def on_the_site(heading: str) -> str:
    """Return the anchor that Python-Markdown gives a heading."""
    kept = re.sub(r"[^\w\s-]", "", heading).strip().lower()
    return re.sub(r"[-\s]+", "-", kept)


def on_github(heading: str) -> str:
    return re.sub(r"[^\w\s-]", "", heading).strip().lower().replace(" ", "-")


def anchors(page: Path, anchor: Callable[[str], str], again: str) -> set[str]:
    """Return the anchors of a page, those of repeated headings with a number."""
    seen: Counter[str] = Counter()
    names = set()
    for name in map(anchor, headings(page)):
        names.add(f"{name}{again}{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return names


def test_every_page_is_in_the_navigation_once() -> None:
    named = [*in_navigation(SETTINGS["nav"])]
    assert sorted(named) == sorted(str(page.relative_to(DOCS)) for page in PAGES)


def test_the_site_loads_nothing_from_others() -> None:
    assert SETTINGS["theme"]["font"] is False
    assert SETTINGS["plugins"] == ["search"]
    assert "extra_javascript" not in SETTINGS
    assert all((DOCS / path).is_file() for path in SETTINGS["extra_css"])


@pytest.mark.parametrize("page", LINKING, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        path, _, fragment = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_file(), link
        if page in PAGES:  # the site has nothing else
            assert target.is_relative_to(DOCS), link
        if fragment:
            assert fragment in anchors(target, on_the_site, "_"), link
            assert fragment in anchors(target, on_github, "-"), link


def test_links_are_found() -> None:
    assert sum(len([*links(page)]) for page in LINKING) > 500
