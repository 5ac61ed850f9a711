"""A schema for the JSON document of each command: `python -m tests.cli.json_schemas`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import make_dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
from jsonschema import Draft202012Validator

from kgroup.history.build.build import ClusterReport
from kgroup.history.build.retention import TableRemoval, UnneededFiles
from kgroup.history.query.commit_summary import CommitSummary
from kgroup.history.query.inventory import ClusterInventory, GroupInventory, TableColumn
from kgroup.history.query.lag import Lag
from kgroup.history.query.owner import Owner
from kgroup.history.query.past_group import PastDescription
from kgroup.history.query.stale import StaleOffset
from kgroup.history.rebalance.query import Storm
from kgroup.history.rebalance.rebalance import Rebalance
from kgroup.history.sql.question import Interval
from kgroup.model.group import Group
from kgroup.model.offset import StoredOffset, StoreName
from kgroup.model.problem import Problem
from kgroup.model.record import DecodedRecord
from kgroup.operation.check.rule import Finding, RuleDescription
from kgroup.operation.decode import Count
from kgroup.operation.describe import GroupDescription
from kgroup.operation.doctor import Diagnosis
from kgroup.operation.list_groups import ListedGroup
from kgroup.operation.locate import GroupLocation, TransactionLocation
from kgroup.operation.offsets.diff import OffsetDifference
from kgroup.operation.offsets.plan import PlannedOffset
from kgroup.operation.plan.advice import GroupAdvice, ListedTarget
from kgroup.operation.plan.plan import MigrationTarget, Plan
from kgroup.operation.plan.verify import StepCheck
from kgroup.operation.remove_members import RemovedMember
from kgroup.operation.simulate import ShippedScenario
from kgroup.operation.zookeeper.fetcher import Fetch
from kgroup.operation.zookeeper.nodes import OwnedPartition, RegisteredConsumer, TreeNode
from kgroup.render.assignment_object import BounceObject, RunObject
from kgroup.render.client_join import JoinObject
from kgroup.render.group import DESCRIPTION_KEYS
from kgroup.render.json_document import SCHEMA_VERSION
from kgroup.simulation.timeline import Simulation
from kgroup.source.config.profile import ListedProfile, ProfileSetting
from tests.cli.commands import write_folder
from tests.render.field_table import OUTPUT_PAGE, field_meanings, parts_of, rows_under

FOLDER = Path(__file__).parents[2] / "docs" / "schema"

_AnyRecord = make_dataclass(
    DecodedRecord.__name__,
    [
        (name, hint | None if name == "offset" else hint)
        for name, hint in get_type_hints(DecodedRecord).items()
    ],
    namespace={"__doc__": DecodedRecord.__doc__, "__module__": DecodedRecord.__module__},
)
"""A record of a log, or the one of --key, which has no offset."""


def _flat(cls: type[GroupDescription]) -> type:
    """Return the type of the JSON object of a description, which has the group's fields itself."""
    own = get_type_hints(cls)
    hints = get_type_hints(Group) | own
    names = dict.fromkeys((*DESCRIPTION_KEYS, *own))
    del names["group"]
    return make_dataclass(
        cls.__name__,
        [(name, hints[name]) for name in names],
        namespace={"__doc__": cls.__doc__, "__module__": cls.__module__},
    )


ROWS: Mapping[str, tuple[Any, ...]] = {
    "assign": (RunObject, BounceObject, JoinObject),
    "check": (Finding,),
    "check --rules": (RuleDescription,),
    "coordinator": (GroupLocation, TransactionLocation),
    "decode-offsets": (_AnyRecord, Count),
    "describe": (_flat(GroupDescription),),
    "doctor": (Diagnosis,),
    "history as-of": (_flat(PastDescription),),
    "history build": (ClusterReport,),
    "history commits": (CommitSummary,),
    "history delete": (TableRemoval,),
    "history expire": (TableRemoval,),
    "history lag": (Lag,),
    "history owner": (Owner,),
    "history rebalances": (Rebalance,),
    "history show": (ClusterInventory, GroupInventory, TableColumn),
    "history sql": (dict[str, Any],),
    "history stale": (StaleOffset,),
    "history storms": (Storm,),
    "history timeline": (Interval,),
    "history vacuum": (UnneededFiles,),
    "list": (ListedGroup,),
    "members remove": (RemovedMember,),
    "offsets copy": (PlannedOffset,),
    "offsets delete": (PlannedOffset,),
    "offsets diff": (OffsetDifference,),
    "offsets import": (PlannedOffset,),
    "offsets reset": (PlannedOffset,),
    "offsets show": (StoredOffset,),
    "plan": (GroupAdvice, ListedTarget),
    **{f"plan {target}": (Plan,) for target in MigrationTarget},
    "plan apply": (PlannedOffset,),
    "plan verify": (StepCheck,),
    "profile list": (ListedProfile,),
    "profile show": (ProfileSetting,),
    "simulate": (Simulation, ShippedScenario),
    "zk fetchers": (Fetch,),
    "zk ids": (RegisteredConsumer,),
    "zk owners": (OwnedPartition,),
    "zk tree": (TreeNode,),
}
"""What a row of `data` is, by the command that the document names: one of these types."""


def schemas() -> dict[str, str]:
    """Return the text of each schema by the name of its file."""
    return {
        f"{command.replace(' --', '-').replace(' ', '-')}.json": json.dumps(
            _schema(command), ensure_ascii=False, indent=2
        )
        + "\n"
        for command in ROWS
    }


def check_document(text: str | bytes) -> None:
    """Make sure that a document is as the schema of its command says.

    Raises:
        ValidationError: it is not.
        KeyError: no command is called so.
    """
    document = json.loads(text)
    _validator(document["command"]).validate(document)


@cache
def _validator(command: str) -> Draft202012Validator:
    schema = _schema(command)
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def _schema(command: str) -> dict[str, Any]:
    """Make the schema of a command's document: of what is around the rows, too."""
    around = (Problem, StoreName) if command == "offsets show" else (Problem,)
    made, parts = msgspec.json.schema_components(
        (*ROWS[command], *around), ref_template="#/$defs/{name}"
    )
    classes = {part.__name__: part for part in parts_of((*ROWS[command], *around))}
    *rows, problem = made[: len(ROWS[command]) + 1]
    meaning = rows_under("| field | meaning |", OUTPUT_PAGE.read_text("utf-8"))
    properties: dict[str, dict[str, Any]] = {
        "command": {"const": command},
        "schema_version": {"const": SCHEMA_VERSION},
        "store": made[-1],
        "data": {"type": "array", "items": {"anyOf": rows} if len(rows) > 1 else rows[0]},
        "errors": {"type": "array", "items": problem},
    }
    if StoreName not in around:
        del properties["store"]
    return {
        "$schema": Draft202012Validator.META_SCHEMA["$id"],
        "title": f"kgroup {command} -o json",
        "type": "object",
        "properties": {
            name: {"description": meaning[name], **each} for name, each in properties.items()
        },
        "required": [name for name in properties if name != "store"],
        "additionalProperties": False,
        "$defs": {name: _closed(classes.get(name), part) for name, part in parts.items()},
    }


def _closed(cls: type | None, part: dict[str, Any]) -> dict[str, Any]:
    """Let an object have all its fields, null ones too, and no others."""
    part = {key: value for key, value in part.items() if key != "description"}
    if "properties" not in part:
        return part
    assert cls is not None
    fields: dict[str, dict[str, Any]] = part["properties"]
    meanings = field_meanings(cls)
    may_be_absent = RunObject.__optional_keys__ if cls is RunObject else ()
    return part | {
        "properties": {
            key: {"description": meanings[key]} | _plain(field) for key, field in fields.items()
        },
        "required": [key for key in fields if key not in may_be_absent],
        "additionalProperties": False,
    }


def _plain(field: dict[str, Any]) -> dict[str, Any]:
    """Leave out what a reader of documents does not need, and write "or null" in short."""
    match field:
        case {"anyOf": [{"type": kind, **rest}, {"type": "null"}]} if not rest:
            return {"type": [kind, "null"]}
    return {key: value for key, value in field.items() if key != "default"}


if __name__ == "__main__":
    write_folder(FOLDER, schemas())
