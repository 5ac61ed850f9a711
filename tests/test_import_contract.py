"""The import contract of pyproject.toml names every module; tests keep their bounds, too."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
DATA_ONLY = {"kgroup.sample", "kgroup"}
"""What nothing may be imported into: a path, and the version."""


def test_every_module_stands_on_a_level() -> None:
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]
    layers = tool["importlinter"]["contracts"][0]["layers"]
    named = {name for layer in layers for name in layer.split(" | ")}
    unnamed = []
    for path in (ROOT / "kgroup").rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        module = ".".join(parts).removesuffix(".__init__")
        if not any(f"{module}.".startswith(f"{name}.") for name in named | DATA_ONLY - {"kgroup"}):
            unnamed.append(module)
    assert sorted(unnamed) == ["kgroup", "kgroup.source"]


def test_every_room_says_whose_it_is() -> None:
    for path in (ROOT / "kgroup").rglob("__init__.py"):
        first = path.read_text("utf-8").splitlines()[0]
        assert first.startswith('"""'), path
        assert first.rstrip('"').endswith((".", ":")), path


def test_tests_replace_nothing_that_is_private_and_import_from_no_other_test() -> None:
    patched = re.compile(
        r'(?:setattr|setitem|delattr|patch|patch\.object)\(\s*[\w.]+,\s*"_[a-zA-Z]'
    )
    imported = re.compile(r"^(?:from|import) tests\.(?:\w+\.)*test_", re.MULTILINE)
    for path in (ROOT / "tests").rglob("*.py"):
        text = path.read_text("utf-8")
        assert not patched.search(text), path
        assert not imported.search(text), path
