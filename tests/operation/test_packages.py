from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import distributions
from pathlib import Path

from kgroup.operation.doctor import PACKAGES, installed_version, versions

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))[
    "project"
]


def name_of(requirement: str) -> str:
    (name,) = re.findall(r"^[a-z0-9-]+", requirement)
    return str(name)


def test_parts_are_what_the_project_depends_on() -> None:
    required = {name_of(each): None for each in PROJECT["dependencies"]}
    extra = {
        name_of(each): name
        for name, group in PROJECT["optional-dependencies"].items()
        for each in group
    }
    assert {part.name: part.extra for part in PACKAGES} == required | extra


def test_versions_are_of_what_is_installed() -> None:
    there = {
        distribution.metadata["Name"].lower(): distribution.version
        for distribution in distributions()
    }
    found = dict(versions())
    assert found.pop("Python") == sys.version.split()[0]
    assert found == {part.name: there[part.name] for part in PACKAGES}
    assert installed_version("kgroup-no-such-part") is None
