"""Read a page of a group: what is under each heading."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass
class Section:
    """What is under a heading: texts, what the mouse shows, and shapes with their attributes."""

    texts: list[str] = field(default_factory=list)
    hovers: list[str] = field(default_factory=list)
    shapes: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)

    def count(self, tag: str, **attributes: str) -> int:
        """Return the number of shapes with these attributes."""
        wanted = attributes.items()
        return sum(name == tag and wanted <= found.items() for name, found in self.shapes)


class PageReader(HTMLParser):
    """A page.

    Attributes:
        paragraphs: its paragraphs.
        sections: its sections, by heading.
        tags: names of all elements.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.paragraphs: list[str] = []
        self.sections: dict[str, Section] = {}
        self.tags: set[str] = set()
        self._open: list[str] = []
        self._words = ""
        self._section = Section()
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self._words = ""
        if tag in ("rect", "circle"):
            self._section.shapes.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self._words += data

    def handle_endtag(self, tag: str) -> None:
        words, self._words = self._words, ""
        if tag == "p":
            self.paragraphs.append(words)
        elif tag == "h2":
            assert words not in self.sections
            self._section = self.sections[words] = Section()
        elif tag == "title":
            self._section.hovers.append(words)
        elif tag in ("text", "td"):
            self._section.texts.append(words)
