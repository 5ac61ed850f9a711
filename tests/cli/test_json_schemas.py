"""The schemas in docs/schema: of every command, as the code is, and of nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import ValidationError

from tests.cli.commands import EVERY_COMMAND
from tests.cli.conftest import Cli
from tests.cli.json_schemas import FOLDER, ROWS, check_document, schemas


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
    """Real documents of every command are checked wherever tests make them."""
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
