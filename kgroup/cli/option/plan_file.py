"""Plans in a file, as `kgroup plan … -o json` writes them."""

from pathlib import Path

import msgspec

from kgroup.errors import InputError
from kgroup.operation.plan.plan import Plan
from kgroup.source.json_fault import json_fault

__all__ = ["PlanFile", "read_plan_file"]

_LARGEST = 1 << 28
"""Bytes; a plan of a group with a hundred thousand members has some thirty million."""


class PlanFile(msgspec.Struct):
    """A document with plans."""

    schema_version: int
    command: str
    data: list[Plan]


class _Step(msgspec.Struct):
    """What a step must have, though a step may expect nothing: without it all would be done."""

    expected: msgspec.Raw


class _Plan(msgspec.Struct):
    steps: list[_Step]


class _Steps(msgspec.Struct):
    data: list[_Plan]


def read_plan_file(path: Path) -> PlanFile:
    """Read a document.

    Raises:
        InputError: it is none with plans.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}", path=str(path)) from None
    if len(data) > _LARGEST:
        raise InputError(f"{path}: expected at most {_LARGEST:,} bytes, found more", path=str(path))
    try:
        document = msgspec.json.decode(data, type=PlanFile)
        msgspec.json.decode(data, type=_Steps)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        what = "expected a plan that 'kgroup plan ... -o json' wrote"
        raise InputError(f"{path}: {what}: {json_fault(error)}", path=str(path)) from None
    except RecursionError:
        raise InputError(
            f"{path}: expected a plan, found JSON of too many levels", path=str(path)
        ) from None
    if document.schema_version != 1:
        raise InputError(
            f"{path}: $.schema_version: expected 1, found {document.schema_version}", path=str(path)
        )
    if not document.command.startswith("plan "):
        raise InputError(
            f"{path}: $.command: expected a plan, found {document.command[:40]!r}", path=str(path)
        )
    return document
