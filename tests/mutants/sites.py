"""Mutation sites: the conditions of a module, and the changed form of each. No I/O except for reading the module."""

from __future__ import annotations

import ast
import random
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("nodeagent", "plugins/nodeagent_plugins", "apiserver_stub")
GENERATED = ("_pb2.py", "_pb2_grpc.py")
NOT_TESTED_BY_UNIT_TESTS = ("nodeagent/testing/contracts/",)
"""Suites of tests: their conditions are tested by the implementations that pass them."""

FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
SYMBOLS: dict[type[ast.AST], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.And: "and",
    ast.Or: "or",
    ast.Not: "not",
}


@dataclass(frozen=True, order=True)
class Mutant:
    """One changed condition.

    :ivar path: path of the module, relative to the repository.
    :ivar index: number of the condition among those of the module, in the order of :func:`conditions`.
    :ivar part: number of the operator within the condition.
    """

    path: str
    index: int
    part: int
    line: int
    change: str
    condition: str

    @property
    def key(self) -> str:
        """Identification that does not depend on line numbers."""
        return f"{self.path}: {self.condition}: {self.change}"


def modules() -> list[str]:
    """Return the paths of the modules to mutate, relative to the repository."""
    paths = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))
    names = (str(path.relative_to(ROOT)) for path in paths if not path.name.endswith(GENERATED))
    return [name for name in names if not name.startswith(NOT_TESTED_BY_UNIT_TESTS)]


def mutants(path: str) -> list[Mutant]:
    """Return all mutants of the module at *path*."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    found = []
    for index, node in enumerate(conditions(tree)):
        for part, change in enumerate(_changes(node)):
            found.append(Mutant(path, index, part, node.lineno, change, ast.unparse(node)))
    return found


def sample(
    count: int, seed: int, paths: Sequence[str] | None = None, lines: Container[tuple[str, int]] | None = None
) -> list[Mutant]:
    """Return *count* mutants of the modules at *paths*, or of some *lines*; the same for the same seed and code."""
    every = [mutant for path in paths or modules() for mutant in mutants(path)]
    if lines is not None:
        every = [mutant for mutant in every if (mutant.path, mutant.line) in lines]
    return random.Random(seed).sample(every, min(count, len(every)))


def mutate(tree: ast.Module, index: int, part: int) -> ast.Module:
    """Change an operator of *tree* in place and return it."""
    for number, node in enumerate(conditions(tree)):
        if number != index:
            continue
        if isinstance(node, ast.Compare):
            node.ops[part] = FLIPPED[type(node.ops[part])]()
        elif isinstance(node, ast.BoolOp):
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        else:
            # ``not x`` becomes ``bool(x)``, without a reference to a name that the module may shadow.
            node.operand = ast.copy_location(ast.UnaryOp(ast.Not(), node.operand), node)
        return tree
    raise LookupError(f"no condition {index}")


def conditions(tree: ast.Module) -> Iterator[ast.Compare | ast.BoolOp | ast.UnaryOp]:
    """Yield the conditions of a module in a stable order, without those that only the type checker evaluates."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.Compare, ast.BoolOp)) or (
            isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
        ):
            yield node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and _is_overload(node):
            continue
        pending.extend(reversed(list(ast.iter_child_nodes(node))))


def _changes(node: ast.Compare | ast.BoolOp | ast.UnaryOp) -> list[str]:
    if isinstance(node, ast.Compare):
        return [f"{SYMBOLS[type(op)]} → {SYMBOLS[FLIPPED[type(op)]]}" for op in node.ops]
    if isinstance(node, ast.BoolOp):
        return ["and → or" if isinstance(node.op, ast.And) else "or → and"]
    return ["not removed"]


def _is_overload(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(item, ast.Name) and item.id == "overload" for item in node.decorator_list)
