"""Pages, schemas and examples that are generated say what the code says."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest
from jsonschema import ValidationError

from kgroup.assignor.client_facts import FACTS
from kgroup.assignor.group_spec import ASSIGNS_LIKE
from kgroup.cli.command.plan import CLIENTS
from kgroup.cli.command_group import Block
from kgroup.cli.option.source import FILE_FORMATS
from kgroup.operation.plan.plan import MigrationTarget
from kgroup.sample import sample_log_dir
from tests.cli import command_pages, json_schemas, man_pages
from tests.cli.command_line import Cli
from tests.cli.command_pages import (
    FINDINGS,
    MARK,
    OF_THE_PAGE,
    OPTIONS,
    SITE,
    WITH_MEANINGS,
    findings_page,
    options_page,
    site_settings,
)
from tests.cli.commands import EVERY_COMMAND, context_of
from tests.cli.console_examples import EXAMPLE, FACTS_TABLE, PLAN, WIDTH, facts_table, plain
from tests.cli.console_examples import PAGES as PAGES_WITH_EXAMPLES
from tests.cli.json_schemas import ROWS, check_document
from tests.cli.man_pages import pages
from tests.cli.pictures import SESSION, session
from tests.history.recorded import Built
from tests.render.field_table import with_meanings


@pytest.mark.parametrize(
    ("generator", "files"),
    [
        (man_pages, man_pages.pages),
        (command_pages, command_pages.pages),
        (json_schemas, json_schemas.schemas),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_files_are_what_the_code_says(
    generator: ModuleType, files: Callable[[], Mapping[str, str]]
) -> None:
    written = {path.name: path.read_text("utf-8") for path in generator.FOLDER.iterdir()}
    assert written == files(), f"run: python -m {generator.__name__}"


PAGES = pages()
REQUESTS = {".TH", ".SH", ".PP", ".TP", ".nf", ".fi"}
NAMED = {r"\-": "-", r"\e": "\\", r"\&": "", r"\(aq": "'", r"\(ga": "`", r"\(ha": "^", r"\(ti": "~"}


def shown(text: str) -> Iterator[str]:
    """Yield the lines of a page as they are read, without requests."""
    for line in text.splitlines():
        if line.startswith("."):
            assert line.split()[0] in REQUESTS, line
            continue
        # printed they would be hyphens and curved quotes, which no shell takes
        assert not re.search(r"(?<!\\)[-'`^~]", line), line
        line = re.sub(r"\\(?:f[BR]|:)", "", line)
        yield re.sub(r"\\(?:\(..|.)", lambda escape: NAMED[escape[0]], line)


def squeezed(text: str) -> str:
    return " ".join(text.replace("\b", "").split())


def test_every_command_and_group_has_a_page() -> None:
    groups = {name.rpartition(" ")[0] for name in EVERY_COMMAND} - {""}
    commands = {f"kgroup {name}" for name in EVERY_COMMAND.keys() | groups}
    assert set(PAGES) == {f"{name.replace(' ', '-')}.1" for name in {"kgroup", *commands}}


@pytest.mark.parametrize("name", EVERY_COMMAND)
def test_it_says_what_the_help_says(name: str) -> None:
    command = EVERY_COMMAND[name]
    lines = [*shown(PAGES[f"kgroup-{name.replace(' ', '-')}.1"])]
    text = squeezed(" ".join(lines))
    parent = context_of(name)
    ctx = click.Context(command, info_name=name.split()[-1], parent=parent)
    for parameter in command.get_params(ctx):
        if isinstance(parameter, click.Option) and not parameter.hidden:
            record = parameter.get_help_record(ctx)
            assert record is not None
            assert squeezed(f"{record[0]} {parameter.help}") in text
    assert isinstance(parent.command, click.Group)
    typed = parent.command.get_command(parent, name.split()[-1])  # the group, of its default
    assert typed is not None
    for paragraph in (typed.help or "").partition("\n")[2].split("\n\n"):
        assert squeezed(paragraph) in text
    examples = (command.epilog or "").partition("Examples:\n")[2].splitlines()
    assert examples
    assert {line.strip() for line in examples} <= set(lines)


def test_formatters_take_them(tmp_path: Path) -> None:
    for name, text in PAGES.items():
        (tmp_path / name).write_text(text, "utf-8")
    linters = {"groff": ["-Kutf8", "-man", "-Tutf8", "-ww", "-z"], "mandoc": ["-Tlint", "-Werror"]}
    for program, options in linters.items():
        if shutil.which(program) is not None:  # neither is needed for anything else
            command = [program, *options, *sorted(PAGES)]
            done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
            assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


SHARED = {
    "Source options": [
        *("--log-dir", "--sample", "--zookeeper"),
        *(each.option for each in FILE_FORMATS.values()),
        "--from",
    ],
    "Connection options": ["-b", "--command-config", "-X", "-C", "--timeout"],
    "Store options": ["--file", "--sql", "--sql-table", "--sql-column", "--create-table"],
    "Warehouse options": ["--warehouse", "--cluster", "--engine"],
    "Spark options": ["--master", "--spark-conf"],
    "Output options": ["-o", "--columns", "--no-headers", "--color", "--no-pager", "--utc"],
}
"""Blocks in their order, with their options in theirs."""


def test_tables_on_other_pages_are_what_the_classes_say() -> None:
    for path in WITH_MEANINGS:
        page = path.read_text("utf-8")
        assert page == with_meanings(page), "run: python -m tests.cli.command_pages"


def test_findings_are_explained_as_the_rules_say() -> None:
    page = FINDINGS.read_text("utf-8")
    assert page == findings_page(), "run: python -m tests.cli.command_pages"


def test_the_site_has_the_page_of_each_command() -> None:
    settings = SITE.read_text("utf-8")
    assert settings == site_settings(settings), "run: python -m tests.cli.command_pages"


def test_common_options_are_explained_once() -> None:
    page = OPTIONS.read_text("utf-8")
    assert page == options_page(page), "run: python -m tests.cli.command_pages"
    assert MARK.findall(page) == [block for block in Block if block not in OF_THE_PAGE]


@pytest.mark.parametrize("name", EVERY_COMMAND)
def test_help_shows_own_options_before_blocks_of_shared_ones(cli: Cli, name: str) -> None:
    text = cli(*name.split(), "--help").out
    sections = re.split(r"^((?:\w+ )?[Oo]ptions):\n", text, flags=re.MULTILINE)[1:]
    titles = sections[::2]
    assert titles == ["Options", *(title for title in SHARED if title in titles)]
    for title, section in zip(titles, sections[1::2], strict=True):
        options = re.findall(r"^  (--?[\w-]+)", section, re.MULTILINE)
        if title == "Options":
            assert options[-1] == "-h"
        else:
            assert options == [option for option in SHARED[title] if option in options]


def test_every_command_with_documents_has_a_schema() -> None:
    with_documents = {
        name
        for name, command in EVERY_COMMAND.items()
        if any(
            "--output" in parameter.opts and "json" in getattr(parameter.type, "choices", ())
            for parameter in command.params
        )
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


EXAMPLES = [
    match for path in PAGES_WITH_EXAMPLES for match in EXAMPLE.finditer(path.read_text("utf-8"))
]


@pytest.mark.parametrize("example", EXAMPLES, ids=[match[1] for match in EXAMPLES])
def test_an_example_writes_what_stands_below_it(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, example: re.Match[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    shown = plain(cli(*shlex.split(example[1])).out)
    expected = f"```console\n$ kgroup {example[1]}\n{shown}```\n"
    assert example[0] == expected, "run: python -m tests.cli.console_examples"


def test_each_target_has_an_example() -> None:
    words = [shlex.split(match[1]) for match in EXAMPLES]
    assert {word[1] for word in words if word[0] == "plan"} >= set(map(str, MigrationTarget))


def test_the_page_of_plans_has_what_is_known_of_libraries() -> None:
    found = FACTS_TABLE.findall(PLAN.read_text("utf-8"))
    assert found == [facts_table()], "run: python -m tests.cli.console_examples"
    names = [name.replace("kafka-clients", "java") for name in FACTS]
    assert {*CLIENTS, *ASSIGNS_LIKE} == {*names}


def test_the_picture_shows_what_is_written() -> None:
    assert session() == SESSION.read_text("utf-8"), "run: python -m tests.cli.pictures"
