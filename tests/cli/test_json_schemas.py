"""The schemas in docs/schema: of every command, as the code is, and of nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import ValidationError

from kgroup.sample import sample_log_dir
from tests.cli.command_line import Cli
from tests.cli.commands import EVERY_COMMAND
from tests.cli.json_schemas import FOLDER, ROWS, check_document, schemas
from tests.history.recorded import Built


def test_schemas_are_what_the_code_says() -> None:
    written = {path.name: path.read_text("utf-8") for path in FOLDER.iterdir()}
    assert written == schemas(), "run: python -m tests.cli.json_schemas"


def test_every_command_with_documents_has_a_schema() -> None:
    with_documents = {
        name
        for name, command in EVERY_COMMAND.items()
        if any("--output" in parameter.opts for parameter in command.params)
    }
    assert with_documents == ROWS.keys() - {"check --rules"}


def test_a_schema_is_for_one_form_alone(cli: Cli) -> None:
    text = cli("list", "--sample", "-o", "json").out

    def changed(**fields: Any) -> str:
        document = json.loads(text)
        document["data"][0] |= fields
        return json.dumps(document)

    check_document(changed(topics=None))
    for bad in ({"new_field": 1}, {"state": "Sleepy"}, {"member_count": "3"}):
        with pytest.raises(ValidationError):
            check_document(changed(**bad))
    document = json.loads(text)
    for field in ("errors", "schema_version"):
        with pytest.raises(ValidationError):
            check_document(json.dumps({key: document[key] for key in document.keys() - {field}}))
    del document["data"][0]["topics"]
    with pytest.raises(ValidationError):
        check_document(json.dumps(document))


@pytest.mark.parametrize(
    "words",
    [
        "as-of now order-service",
        "commits order-service",
        "lag order-service --at now",
        "owner orders 0 --at now",
        "rebalances order-service",
        "show",
        "show --groups",
        "stale --for 10s",
        "storms --rate 2/1h",
        "timeline order-service",
    ],
)
def test_documents_of_the_past(cli: Cli, recorded_warehouse: Built, words: str) -> None:
    """`cli` compares what it writes with the schema, here and wherever tests ask for JSON."""
    warehouse = recorded_warehouse(sample_log_dir())
    result = cli("history", *words.split(), "--warehouse", warehouse, "-o", "json")
    assert (result.status, bool(json.loads(result.out)["data"])) == (0, True)


def test_a_document_of_a_plan_for_partitions(cli: Cli) -> None:
    result = cli("plan", "partitions", "orders=8", "order-service", "--sample", "-o", "json")
    assert json.loads(result.out)["data"]
