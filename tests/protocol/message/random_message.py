"""A Hypothesis strategy for messages: any value that a message's fields can have.

A message is made by `random` of a seed that is drawn: a draw for each of its fields would take many
times as long as what is tested. So a case that fails gets fewer messages, and no simpler ones.
"""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from importlib.resources import files
from random import Random
from typing import Any

from hypothesis import strategies as st

from kgroup.protocol.message import schema
from kgroup.protocol.message.schema import Field

SCHEMAS = sorted(
    f"{folder.name}/{file.name.removesuffix('.json')}"
    for folder in files("kgroup").joinpath("schema").iterdir()
    if folder.is_dir() and folder.name != "api"  # requests, which kafka-python reads
    for file in folder.iterdir()
    if file.name.endswith(".json")
)
VERSIONS = [(name, version) for name in SCHEMAS for version in schema.versions(name)]

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_SIZES = (0, 1, 2, 5, 12)
_ALPHABETS = ((0x20, 0x7F), (0, 0x20), (0x7F, 0xD800), (0xE000, 0x110000))
"""ASCII, control characters, and the rest of Unicode but for surrogates."""


def message(name: str, version: int) -> st.SearchStrategy[dict[str, Any]]:
    """Any message of a version, as `codec.read` gives it."""
    return st.integers(0, 2**64 - 1).map(lambda seed: any_message(Random(seed), name, version))


def any_message(random: Random, name: str, version: int) -> dict[str, Any]:
    """Any message of a version, of a seed that was drawn."""
    return _struct(random, schema.fields(name, version), schema.flexible(name, version))


def _struct(random: Random, members: tuple[Field, ...], tags: bool) -> dict[str, Any]:
    made = {}
    for field in members:
        if field.tag is None or random.random() < 0.5:
            value = _value(random, field)
            if field.tag is None or value != field.default:
                made[field.name] = value
    if tags and random.random() < 0.2:
        unknown = sorted(random.sample(range(50, 2**31), random.choice((1, 2))))
        made["_tagged"] = [{"tag": tag, "data": _bytes(random)} for tag in unknown]
    return made


def _value(random: Random, field: Field) -> Any:
    if field.nullable and random.random() < 0.2:
        return None
    if field.array:
        return [_one(random, field) for _ in range(random.choice((0, 1, 1, 2, 3)))]
    return _one(random, field)


def _one(random: Random, field: Field) -> Any:
    if field.fields is not None:
        return _struct(random, field.fields, field.compact)
    if field.type == "string":
        return "".join(_character(random) for _ in range(random.choice(_SIZES)))
    if field.type == "bytes":
        return _bytes(random)
    if field.type == "uuid":
        return urlsafe_b64encode(random.randbytes(16)).decode()[:22]
    if field.type == "uint16":
        return _integer(random, 0, 2**16 - 1)
    half = 1 << (_BITS[field.type] - 1)
    return _integer(random, -half, half - 1)


def _integer(random: Random, lowest: int, highest: int) -> int:
    """Any number; every other time one at which something changes."""
    if random.random() < 0.5:
        return random.choice((lowest, max(lowest, -1), 0, 1, 127, highest))
    return random.randint(lowest, highest)


def _character(random: Random) -> str:
    return chr(random.randrange(*random.choice(_ALPHABETS)))


def _bytes(random: Random) -> str:
    return b64encode(random.randbytes(random.choice(_SIZES))).decode()
