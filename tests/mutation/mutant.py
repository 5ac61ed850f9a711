"""The mutants of a module: each says one small thing otherwise than the code does.

Left out is what no test can or should tell apart: annotations, docstrings, decorators,
what only type checkers read, assertions, and the texts of messages (f-strings, and whatever stands
inside a raise).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

_OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult, ast.Mod: ast.FloorDiv, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitOr,
}  # fmt: skip
_FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True)
class Mutant:
    """One change of a module's tree; `apply` makes it, once."""

    line: int
    says: str
    apply: Callable[[], None]


def mutants(path: Path) -> tuple[ast.Module, list[Mutant]]:
    """Return the tree of a file, and all mutants of it in the order of the text."""
    tree = ast.parse(path.read_text())
    return tree, sorted(_of(tree), key=lambda mutant: mutant.line)


def _of(node: ast.AST) -> Iterator[Mutant]:
    yield from _changes(node)
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "exc", "cause") or (
            name == "keywords" and isinstance(node, ast.ClassDef)
        ):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_left_out(child):
                yield from _of(child)
        if name in ("body", "orelse", "finalbody") and isinstance(value, list):
            for place, statement in enumerate(value):
                yield from _statement(value, place, statement)


def _is_left_out(node: ast.AST) -> bool:
    match node:
        case ast.JoinedStr() | ast.Assert() | ast.keyword(arg="strict"):
            return True
        case ast.If(test=ast.Name("TYPE_CHECKING")):
            return True
    return False


def _changes(node: ast.AST) -> Iterator[Mutant]:
    """Yield the mutants of what stands at a node itself."""
    match node:
        case ast.Compare(ops=[*_, _]):
            for place, operator in enumerate(node.ops):
                other = _OPERATORS[type(operator)]
                yield _mutant(node, operator, other, partial(node.ops.__setitem__, place, other()))
        case ast.BoolOp() | ast.BinOp() | ast.AugAssign() if type(node.op) in _OPERATORS:
            other = _OPERATORS[type(node.op)]
            yield _mutant(node, node.op, other, partial(setattr, node, "op", other()))
        case ast.UnaryOp(op=ast.Not()):
            twice = ast.UnaryOp(ast.Not(), node.operand)
            yield _mutant(node, "not", "not not", partial(setattr, node, "operand", twice))
        case ast.Constant(value=bool(value)):
            yield _mutant(node, value, not value, partial(setattr, node, "value", not value))
        case ast.Constant(value=int(value)):
            for near in (value - 1, value + 1):
                yield _mutant(node, value, near, partial(setattr, node, "value", near))
        case ast.Call(func=ast.Name(id=name) as function) if name in _FUNCTIONS:
            opposite = _FUNCTIONS[name]
            yield _mutant(node, name, opposite, partial(setattr, function, "id", opposite))
        case ast.If() | ast.While() | ast.IfExp() if not isinstance(
            node.test, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant
        ):
            negated = ast.UnaryOp(ast.Not(), node.test)
            yield _mutant(node, "if", "if not", partial(setattr, node, "test", negated))
        case ast.Return(value=ast.Constant(value=None | False)):
            pass
        case ast.Return(value=ast.expr()):
            nothing = partial(setattr, node, "value", ast.Constant(None))
            yield _mutant(node, "return", "return None", nothing)


def _statement(body: list[ast.stmt], place: int, statement: ast.stmt) -> Iterator[Mutant]:
    """Yield the mutants that have another statement in a place, or none."""
    other: ast.stmt = ast.Pass()
    match statement:
        case ast.Break():
            other = ast.Continue()
        case ast.Continue():
            other = ast.Break()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_]):
            pass
        case (
            ast.Expr(value=ast.Call() | ast.Yield() | ast.YieldFrom()) | ast.Raise() | ast.Delete()
        ):
            pass
        case _:
            return
    yield _mutant(statement, statement, other, partial(body.__setitem__, place, other))


def _mutant(
    node: ast.expr | ast.stmt, old: object, new: object, apply: Callable[[], None]
) -> Mutant:
    return Mutant(node.lineno, f"{_said(old)} -> {_said(new)}", apply)


def _said(what: object) -> object:
    if isinstance(what, type):
        return what.__name__
    return type(what).__name__ if isinstance(what, ast.AST) else what
