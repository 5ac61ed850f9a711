"""Kafka's message definitions (JSON) as trees of fields, one tree per version.

A definition is a file in `kgroup/schema`, in the format of Kafka's own generator
(generator/src/main/java/org/apache/kafka/message/{MessageSpec,FieldSpec}.java). Its name is its
path without `.json`: "coordinator/OffsetCommitValue".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

FIXED = {"int8": 1, "int16": 2, "uint16": 2, "int32": 4, "int64": 8, "uuid": 16}
"""Fixed-length types, with their width in bytes."""

_COMMENT = re.compile(r'^\s*//.*|//[^"\n]*$|/\*.*?\*/', re.MULTILINE)
"""Comments in Kafka's JSON; no string in it looks like a comment."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of one version of a message, in wire order.

    Attributes:
        name: name in Kafka's JSON (camelCase).
        type: one of `FIXED`, "string", "bytes" or "struct"; for an array, the type of its elements.
        array: True for a list of `type`.
        nullable: null is allowed (for an array: the array, never its elements).
        compact: lengths are unsigned varints of length + 1; otherwise int16 for a string and int32
            for bytes and arrays, where negative is null. A nullable struct starts with a byte (a
            tagged one: with a varint) that is -1 (0) for null.
        tag: None for a field in its fixed place, otherwise its number in the tagged section that
            ends every struct of a flexible version (count, then tag, size and value of each).
        default: value of an absent tagged field; a dict for a struct.
        fields: fields of a struct, otherwise None.
    """

    name: str
    type: str
    array: bool
    nullable: bool
    compact: bool
    tag: int | None
    default: Any
    fields: tuple[Field, ...] | None


@cache
def fields(name: str, version: int) -> tuple[Field, ...]:
    """Return the fields of one version of a message; ValueError for an undefined version."""
    definition = _definition(name)
    if version not in versions(name):
        raise ValueError(f"{name} has no version {version}")
    structs = {struct["name"]: struct["fields"] for struct in definition.get("commonStructs", ())}
    return _fields(definition["fields"], version, flexible(name, version), structs)


@cache
def versions(name: str) -> range:
    """Return the versions of a message."""
    return _range(_definition(name)["validVersions"])


@cache
def flexible(name: str, version: int) -> bool:
    """Return whether a version has compact lengths and tagged fields."""
    return version in _range(_definition(name).get("flexibleVersions", "none"))


def _fields(
    specs: list[dict[str, Any]],
    version: int,
    compact: bool,
    structs: dict[str, list[dict[str, Any]]],
) -> tuple[Field, ...]:
    fields = []
    for spec in specs:
        if version not in _range(spec.get("versions") or spec["taggedVersions"]):
            continue
        array = spec["type"].startswith("[]")
        kind = spec["type"].removeprefix("[]")
        nested = None
        if kind not in FIXED and kind not in ("string", "bytes"):
            nested = _fields(spec.get("fields") or structs[kind], version, compact, structs)
            kind = "struct"
        field = Field(
            name=spec["name"][0].lower() + spec["name"][1:],
            type=kind,
            array=array,
            nullable=version in _range(spec.get("nullableVersions", "none")),
            compact=compact,
            tag=spec["tag"] if version in _range(spec.get("taggedVersions", "none")) else None,
            default=_default(spec.get("default"), kind, array, nested),
            fields=nested,
        )
        fields.append(field)
    return tuple(fields)


def _default(
    default: str | int | None, kind: str, array: bool, nested: tuple[Field, ...] | None
) -> Any:
    """Return the default as Kafka's generator reads it: "null" is null, JSON's null is unset."""
    if default == "null":
        return None
    if array:
        return []
    if nested is not None:
        return {field.name: field.default for field in nested if field.tag is None}
    if kind == "string":
        return default or ""
    if kind == "bytes":
        return ""
    if kind == "uuid":
        return "A" * 22
    return int(default or 0)


@cache
def _range(text: str) -> range:
    """Parse "3", "0-4", "2+" or "none"."""
    if text == "none":
        return range(0)
    lowest, dash, highest = text.removesuffix("+").partition("-")
    return range(
        int(lowest), 0x8000 if text.endswith("+") else int(highest if dash else lowest) + 1
    )


@cache
def _definition(name: str) -> dict[str, Any]:
    from importlib.resources import files

    import orjson

    text = files("kgroup").joinpath("schema", f"{name}.json").read_text(encoding="utf-8")
    definition = orjson.loads(_COMMENT.sub("", text))
    assert isinstance(definition, dict)
    return definition
