"""Syntax trees of a plugin's files, with the names bound by imports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import field

from nodeagent.base.structs import Struct

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef

_IGNORE = re.compile(r"#\s*nodeagent:\s*ignore\[([a-z\-, ]+)\]")


class HookImplementation(Struct, frozen=True):
    """A function marked with ``@hookimpl``, or an unmarked one with the prefix of hooks."""

    node: FunctionNode
    method: bool
    marked: bool
    options: Mapping[str, int] = field(default_factory=dict)
    """Line numbers of the options of ``@hookimpl``, by name."""


class Module(Struct, frozen=True):
    """One file.

    :ivar names: dotted path of each name that an import binds anywhere in the file.
    :ivar ignored: rules to ignore, by line.
    """

    file: Path
    tree: ast.Module
    names: Mapping[str, str]
    ignored: Mapping[int, frozenset[str]]

    def dotted(self, node: ast.expr) -> str:
        """Return the dotted path of an expression (``time.sleep``), resolved through imports.

        Empty if it has none, or if it is an attribute of a local variable.
        """
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        if parts and node.id not in self.names:
            return ""
        return ".".join([self.names.get(node.id, node.id), *reversed(parts)])

    def hook_implementations(self, prefix: str) -> Iterator[HookImplementation]:
        """Yield the functions and methods that are marked as implementations of hooks or have their prefix."""
        markers = {"nodeagent.hookimpl", *self._local_markers()}
        for node, method in _functions(self.tree, in_class=False):
            marked = False
            options: dict[str, int] = {}
            for decorator in node.decorator_list:
                call = decorator if isinstance(decorator, ast.Call) else None
                if self.dotted(call.func if call else decorator) in markers:
                    marked = True
                    if call:
                        options |= {keyword.arg or "**": keyword.value.lineno for keyword in call.keywords}
            if marked or node.name.startswith(prefix):
                yield HookImplementation(node, method, marked, options)

    def strings(self) -> Mapping[str, str]:
        """Return the values of the module's string constants, by name."""
        return {
            target.id: statement.value.value
            for statement in self.tree.body
            if isinstance(statement, ast.Assign)
            and isinstance(statement.value, ast.Constant)
            and isinstance(statement.value.value, str)
            for target in statement.targets
            if isinstance(target, ast.Name)
        }

    def _local_markers(self) -> Iterator[str]:
        """Yield names bound to ``pluggy.HookimplMarker("nodeagent")``."""
        for statement in self.tree.body:
            if (
                isinstance(statement, ast.Assign)
                and isinstance(statement.value, ast.Call)
                and self.dotted(statement.value.func) == "pluggy.HookimplMarker"
                and [a.value for a in statement.value.args if isinstance(a, ast.Constant)] == ["nodeagent"]
            ):
                yield from (target.id for target in statement.targets if isinstance(target, ast.Name))


def read_module(file: Path) -> Module:
    """Parse one file.

    :raises SyntaxError: the file is not valid Python.
    :raises ValueError: the file contains null bytes.
    :raises OSError: the file cannot be read.
    """
    text = file.read_bytes()
    tree = ast.parse(text, filename=str(file))
    ignored: dict[int, frozenset[str]] = {}
    for number, line in enumerate(text.decode(errors="replace").splitlines(), 1):
        if match := _IGNORE.search(line):
            ignored[number] = frozenset(rule.strip() for rule in match[1].split(","))
    return Module(file, tree, _bound_names(tree), ignored)


def _bound_names(tree: ast.Module) -> dict[str, str]:
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                # `import a.b` binds a, but `import a.b as c` binds c to a.b.
                names[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return names


def _functions(node: ast.AST, *, in_class: bool) -> Iterator[tuple[FunctionNode, bool]]:
    """Yield all functions, nested and conditional ones included, each with whether it is a method."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, FunctionNode):
            yield child, in_class
            yield from _functions(child, in_class=False)
        else:
            yield from _functions(child, in_class=isinstance(child, ast.ClassDef) or in_class)
