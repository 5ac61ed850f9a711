"""YAML documents: the keys and values of the JSON document."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import yaml

from kgroup.render.json_document import SCHEMA_VERSION, json_rows

_PLAIN = re.compile(
    r"(?!(?:y|yes|n|no|on|off|true|false|null|nan|inf)$)[A-Za-z][A-Za-z0-9_.-]*", re.IGNORECASE
)
"""Texts that YAML 1.1 and 1.2 read as text also without quotes."""
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Number(str):
    """Digits of a JSON number that is not an integer."""


class _YamlDumper(_Dumper):  # type: ignore[misc]  # compiled, or not
    """Writes numbers as they are in JSON, and quotes texts that a reader may take for others."""

    def ignore_aliases(self, data: object) -> bool:
        """Return that equal values are written again, not as references."""
        return True


def _text(dumper: Any, text: str) -> Any:
    style = None if _PLAIN.fullmatch(text) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_YamlDumper.add_representer(str, _text)
_YamlDumper.add_representer(
    _Number, lambda dumper, digits: dumper.represent_scalar("tag:yaml.org,2002:float", str(digits))
)


def yaml_document(
    command: str, lines: Iterable[bytes | memoryview], errors: Iterable[object]
) -> Iterator[bytes]:
    """Yield a document with the content of `kgroup.render.json_document.json_document`.

    Args:
        command: command that made the document.
        lines: blocks of whole JSON lines for `data`.
        errors: errors, read after all `lines`.
    """
    yield _yaml({"command": command, "schema_version": SCHEMA_VERSION})
    yield from _sequence("data", lines)
    yield from _sequence("errors", json_rows(errors))


def _sequence(name: str, blocks: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    """Yield a sequence, an element for each line."""
    decoder = msgspec.json.Decoder(float_hook=_Number)
    head = f"{name}:\n".encode()
    for block in blocks:
        for line in bytes(block).splitlines():
            yield head + _yaml([decoder.decode(line)])
            head = b""
    if head:
        yield f"{name}: []\n".encode()


def _yaml(value: object) -> bytes:
    written: bytes = yaml.dump(
        value,
        Dumper=_YamlDumper,
        allow_unicode=True,
        default_flow_style=False,
        encoding="utf-8",
        sort_keys=False,
        width=1 << 30,
    )
    return written
