"""Plan files, written by `kgroup plan … -o json`, and the observations recorded in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from kgroup.errors import InputError
from kgroup.limited_input import read_limited
from kgroup.operation.plan.plan import Plan
from kgroup.source.json_fault import json_fault

_LARGEST = 1 << 27
"""Maximum file size in bytes; a plan for a group of 100,000 members has about 30 million."""
_NOTED = ("seen", "met")
"""Fields of a step that `kgroup plan verify` writes."""


class PlanFile(msgspec.Struct):
    """A JSON document with plans."""

    schema_version: int
    command: str
    data: list[Plan]


class _Advice(msgspec.Struct):
    proposals: list[Any]


class _Overview(msgspec.Struct):
    """What `kgroup plan` without a target writes."""

    command: str
    data: list[_Advice]


def read_plan_file(path: Path) -> PlanFile:
    """Read a plan file.

    Raises:
        InputError: the file has no plans.
    """
    return _plan_file(path, _read(path))


def note_in_plan_file(path: Path, file: PlanFile, note: Callable[[Plan], Plan]) -> None:
    """Record observations of steps in a plan file; everything else in it is unchanged.

    The file is read again, because another process may have recorded another group in between.

    Args:
        path: path of the file.
        file: document that was read from the file.
        note: returns a plan with observations.

    Raises:
        InputError: it is not a regular file, or no longer has the same plans.
        OSError: the file cannot be written.
    """
    from kgroup.atomic_file import output_file

    if not path.is_file():  # reading a pipe again would block forever
        raise InputError(f"{path}: expected a file, found none", path=str(path))
    with _alone(path):
        text = _read(path)
        now = _plan_file(path, text)
        if [(e.group_id, e.members) for e in now.data] != [
            (e.group_id, e.members) for e in file.data
        ]:
            raise InputError(f"{path}: expected the plan that was there, found another one")
        noted = [note(plan) for plan in now.data]
        if noted == now.data:
            return
        document = msgspec.json.decode(text)
        for plan_object, plan in zip(document["data"], noted, strict=True):
            for step, noted_step in zip(plan_object["steps"], plan.steps, strict=True):
                step |= {name: msgspec.to_builtins(getattr(noted_step, name)) for name in _NOTED}
        with output_file(path, None) as output:
            output.write(msgspec.json.encode(document) + b"\n")


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Lock the folder against concurrent updates of its plan files, if the system supports it."""
    import fcntl
    import os

    folder = os.open(os.path.dirname(os.path.realpath(path)), os.O_RDONLY)
    try:
        with suppress(OSError):  # raised by some network file systems
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return read_limited(file, _LARGEST, "plan fewer groups at once")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}", path=str(path)) from None
    except InputError as error:
        raise InputError(f"{path}: {error}", path=str(path)) from None


def _plan_file(path: Path, data: bytes) -> PlanFile:
    try:
        document = msgspec.json.decode(data, type=PlanFile)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        what = "expected a plan that 'kgroup plan ... -o json' wrote"
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            if msgspec.json.decode(data, type=_Overview).command == "plan":
                what = "expected a plan for a target ('kgroup plan TARGET ... -o json'), found the "
                raise InputError(f"{path}: {what}overview of targets", path=str(path)) from None
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
