"""Hypothesis strategies for messages: any value that a message's fields can have."""

from base64 import b64encode, urlsafe_b64encode
from functools import cache
from importlib.resources import files
from typing import Any

from hypothesis import strategies as st

from kgroup.protocol import message_schema
from kgroup.protocol.message_schema import Field

SCHEMAS = sorted(
    f"{folder.name}/{file.name.removesuffix('.json')}"
    for folder in files("kgroup").joinpath("schema").iterdir()
    if folder.is_dir() and folder.name != "api"  # requests, which kafka-python reads
    for file in folder.iterdir()
    if file.name.endswith(".json")
)
VERSIONS = [
    (name, version)
    for name in SCHEMAS
    for version in range(
        message_schema.versions(name).lowest, message_schema.versions(name).highest + 1
    )
]

_INTEGERS = {
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
}
_BYTES = st.binary(max_size=12).map(lambda raw: b64encode(raw).decode())
_UUID = st.binary(min_size=16, max_size=16).map(lambda raw: urlsafe_b64encode(raw).decode()[:22])
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@cache  # a strategy is costly to make, and cheap to draw from again
def message(name: str, version: int) -> st.SearchStrategy[dict[str, Any]]:
    """Any message of a version, as `messages.read` gives it."""
    tags = message_schema.flexible(name, version)
    return _struct(message_schema.fields(name, version), tags)


def _struct(members: tuple[Field, ...], tags: bool) -> st.SearchStrategy[dict[str, Any]]:
    fixed = {field.name: _value(field) for field in members if field.tag is None}
    optional = {field.name: _value(field) for field in members if field.tag is not None}
    defaults = {field.name: field.default for field in members if field.tag is not None}
    if tags:
        numbers = st.integers(50, 2**31 - 1)
        pair = st.fixed_dictionaries({"tag": numbers, "data": _BYTES})
        several = st.lists(pair, min_size=1, max_size=2, unique_by=lambda item: item["tag"])
        optional["_tagged"] = several.map(lambda item: sorted(item, key=lambda x: x["tag"]))

    def without_defaults(made: dict[str, Any]) -> dict[str, Any]:
        return {k: v for k, v in made.items() if k not in defaults or v != defaults[k]}

    return st.fixed_dictionaries(fixed, optional=optional).map(without_defaults)


def _value(field: Field) -> st.SearchStrategy[Any]:
    one: st.SearchStrategy[Any]
    if field.fields is not None:
        one = _struct(field.fields, field.compact)
    elif field.type == "string":
        one = _TEXT
    elif field.type == "bytes":
        one = _BYTES
    elif field.type == "uuid":
        one = _UUID
    else:
        one = _INTEGERS[field.type]
    if field.array:
        one = st.lists(one, max_size=3)
    return st.none() | one if field.nullable else one
