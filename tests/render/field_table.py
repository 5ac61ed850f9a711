"""Tables of fields and words, for the pages of commands and others, made of their classes."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from kgroup.described_enum import DescribedEnum
from kgroup.meaning import meanings
from kgroup.model.group import Group

MEANINGS = re.compile(r"<!-- meanings: (\S+)(?: only (\S+))? -->\n(?:\n(?:\|.*\n)+)?")
OUTPUT_PAGE = Path(__file__).parents[2] / "docs" / "output.md"


def load(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)


def full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def rows_under(head: str, page: str) -> dict[str, str]:
    """First and second cells of the table with this head."""
    body = page.partition(head)[2].partition("\n\n")[0]
    cells = [line.strip("|").split(" | ") for line in body.strip().splitlines()[1:]]
    return {row[0].strip(" `"): row[1].strip() for row in cells}


def parts_of(rows: Collection[Any]) -> list[type]:
    """Return the classes with fields, and the words, that objects of these types consist of."""
    parts: list[type] = []
    for hint in rows:
        _add_parts(hint, parts)
    return parts


def _add_parts(hint: Any, parts: list[type]) -> None:
    for argument in get_args(hint):
        _add_parts(argument, parts)
    if hint not in parts and (_has_fields(hint) or (_is_word(hint) and any(_sentences(hint)))):
        parts.append(hint)
        if _has_fields(hint):
            for field in get_type_hints(hint).values():
                _add_parts(field, parts)


def _has_fields(hint: Any) -> bool:
    return isinstance(hint, type) and (dataclasses.is_dataclass(hint) or is_typeddict(hint))


def _is_word(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, StrEnum)


def _sentences(words: type[StrEnum]) -> list[str]:
    return [word.sentence for word in words if isinstance(word, DescribedEnum)]


def field_meanings(cls: type) -> Mapping[str, str]:
    """Return what each field of a class means, in their order, as its docstring has to say."""
    own = {**meanings(full_name(cls))}
    if "group" in own:  # the JSON object of a description has the group's fields itself
        own = {**meanings(full_name(Group)), **own}
    fields = get_type_hints(cls)
    missing = [field for field in fields if field not in own]
    assert not missing, f"{full_name(cls)}: no meaning of {missing}"
    return {field: own[field] for field in fields}


def field_tables(rows_of: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    """Write the tables of all rows of a command, by its words and options, and of their parts."""
    parts: list[type] = []
    lines = []
    for words, rows in rows_of.items():
        own = parts_of(rows)
        if own:
            parts += (part for part in own if part not in parts)
            lines.append(f"* `kgroup {words}`: {' or '.join(_link(row.__name__) for row in rows)}")
    if lines:
        yield "\n## Fields\n"
        yield "Of rows in [json and jsonl](../output.md#the-json-document):\n"
        yield from lines
    for part in parts:
        is_word = issubclass(part, StrEnum)
        end = "\n\n" if is_word else "\n\nAttributes:"
        text = inspect.cleandoc(part.__doc__ or "").partition(end)[0]
        text = re.sub(r"\bNone\b", "null", text)
        yield f"\n### {part.__name__}\n\n{text}\n"
        yield from _words(part) if is_word else _fields(part)


def with_meanings(page: str) -> str:
    """Write the tables of a page behind the marks that say of which classes they are.

    `only A,B` in a mark names the fields, if another page has the others.
    """

    def table(mark: re.Match[str]) -> str:
        cls = load(mark[1])
        if issubclass(cls, StrEnum):
            lines = list(_words(cls))
        else:
            meaning_of = field_meanings(cls)
            lines = ["| field | meaning |", "| --- | --- |"]
            names = mark[2].split(",") if mark[2] else meaning_of
            lines += [f"| `{field}` | {_cell(meaning_of[field])} |" for field in names]
        head, _, _ = mark[0].partition("\n")
        return f"{head}\n\n" + "".join(f"{line}\n" for line in lines)

    return MEANINGS.sub(table, page)


def _fields(cls: type) -> Iterator[str]:
    yield from ("| field | type | meaning |", "| --- | --- | --- |")
    own = field_meanings(cls)
    for name, hint in get_type_hints(cls).items():
        yield f"| `{name}` | {_type(hint)} | {_cell(own[name])} |"


def _words(words: type[StrEnum]) -> Iterator[str]:
    yield from ("| word | meaning |", "| --- | --- |")
    for word, sentence in zip(words, _sentences(words), strict=True):
        yield f"| `{word.value}` | {_cell(sentence)} |"


def _type(hint: Any) -> str:
    """Name a type in JSON."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _either([_type(argument) for argument in arguments])
    if origin is Literal:
        return _either([f"`{word}`" for word in arguments])
    if origin is tuple and Ellipsis not in arguments:
        return f"[{', '.join(_type(argument) for argument in arguments)}]"
    if origin is not None and issubclass(origin, Mapping):
        return f"object: {_type(arguments[1])} by text"
    if origin is not None:
        return f"list of {_type(arguments[0])}"
    if _is_word(hint) and not _sentences(hint):
        return _either([f"`{word.value}`" for word in hint])
    return _NAMES.get(hint) or _link(hint.__name__)


def _either(names: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


_NAMES = {int: "number", float: "number", str: "text", bool: "flag", NoneType: "null", Any: "any"}


def _link(name: str) -> str:
    return f"[{name}](#{name.lower()})"


def _cell(text: str) -> str:
    return text.replace("|", r"\|")
