"""What scripts may rely on, a line for each promise: `python -m tests.cli.interface` adds new ones.

It never removes a line. If one goes or changes, `SCHEMA_VERSION` has to be raised, and with it the
number in the name of the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from kgroup.cli.main import ALIASES
from kgroup.cli.option.common import ColumnsOption
from kgroup.cli.output.context import columns_named
from kgroup.errors import ExitStatus
from kgroup.render.form import FORMS
from kgroup.render.json_document import SCHEMA_VERSION
from tests.cli.commands import EVERY_COMMAND
from tests.cli.json_schemas import schemas

FILE = Path(__file__).parents[2] / "docs" / "reference" / f"interface-{SCHEMA_VERSION}.txt"


def promises() -> Iterator[str]:
    """Yield exit statuses, formats, commands with options and columns, and fields of documents."""
    for status in ExitStatus:
        yield f"exit status {status.value} {status.name}"
    for form in FORMS:
        yield f"format {form}"
    for alias, meant in ALIASES.items():
        yield f"alias {alias} {meant}"
    for name, command in EVERY_COMMAND.items():
        for param in command.params:
            yield from _parameter(name, param)
    for text in schemas().values():
        schema = json.loads(text)
        rows = _type(schema["properties"]["data"])
        yield f"document {schema['properties']['command']['const']}: {rows}"
        for title, part in {"document": schema, **schema["$defs"]}.items():
            yield from _part(title, part)


def _parameter(name: str, param: click.Parameter) -> Iterator[str]:
    if isinstance(param, click.Argument):
        yield f"argument {name} {param.make_metavar(click.Context(EVERY_COMMAND[name]))}"
    elif not getattr(param, "hidden", False):
        is_flag = isinstance(param, click.Option) and param.is_flag
        for option in (*param.opts, *param.secondary_opts):
            yield f"option {name} {option}{'' if is_flag else ' VALUE'}"
    if isinstance(param.type, click.Choice) and not {"-o", "--color"} & {*param.opts}:
        yield from (f"choice {name} {param.opts[0]} {choice}" for choice in param.type.choices)
    if isinstance(param, ColumnsOption):
        for words, columns in param.declared.items():
            for number, column in enumerate(columns_named(columns), 1):
                yield f"column {name}{words and ' '}{words}: {number} {column.name}"


def _part(title: str, part: Mapping[str, Any]) -> Iterator[str]:
    for value in part.get("enum", ()):
        yield f"value {title} {value}"
    required = part.get("required", ())
    for name, field in part.get("properties", {}).items():
        if (title, name) != ("document", "command"):
            optional = "" if name in required else " (may be absent)"
            yield f"field {title}.{name}: {_type(field)}{optional}"


def _type(schema: Any) -> str:
    """Return the type of a field; types that a union gains later are lines that change."""
    if not isinstance(schema, Mapping):
        return str(schema)
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    if "const" in schema or "enum" in schema:
        return " or ".join(map(str, schema.get("enum") or [schema["const"]]))
    kinds = schema.get("type", "any")
    shown = kinds if isinstance(kinds, str) else " or ".join(kinds)
    if shown == "array":
        items = [*schema.get("prefixItems", ()), *filter(None, [schema.get("items")])]
        return f"list of ({', '.join(map(_type, items))})"
    if shown == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return f"object of ({_type(schema['additionalProperties'])})"
    return shown


def recorded() -> list[str]:
    """Return the lines that were promised."""
    return FILE.read_text("utf-8").splitlines() if FILE.exists() else []


if __name__ == "__main__":
    FILE.write_text("\n".join(sorted({*recorded(), *promises()})) + "\n", "utf-8")
