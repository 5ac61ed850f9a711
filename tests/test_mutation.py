"""Mutants differ from the code in one place, and not where no test could tell."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.mutation.mutant import mutants

_CODE = '''
"""Docstring 1."""
def f(a: Literal[1]) -> Literal[2]:
    assert a > 3
    for each in a:
        if each < 4 and not a:
            continue
        a.x = f"{each + 5}"
    if f(a):
        raise ValueError(6 + 7)
    return max(a, key=None)
'''


def _changed(path: Path) -> set[str]:
    """The lines that mutants have instead of those of the code."""
    lines = set(ast.unparse(ast.parse(path.read_text())).splitlines())
    found = set()
    for number in range(len(mutants(path)[1])):
        tree, made = mutants(path)
        made[number].apply()
        (other,) = set(ast.unparse(tree).splitlines()) - lines or {"pass"}
        found.add(other.strip())
    return found


def test_one_place_is_changed_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "code.py"
    path.write_text(_CODE)
    assert _changed(path) == {
        "if each <= 4 and (not a):",
        "if each < 3 and (not a):",
        "if each < 5 and (not a):",
        "if each < 4 or not a:",
        "if each < 4 and (not not a):",
        "break",
        "pass",  # of the assignment, and of the raise
        "if not f(a):",
        "return None",
        "return min(a, key=None)",
    }
