"""Finds imports that a plugin may not rely on: the agent's internals, test means, other plugins."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from nodeagent.authoring.findings import Finding, Rule
from nodeagent.authoring.source import Module

ALLOWED = ("apiclient", "base", "config", "contracts", "errors", "model")
"""Parts of ``nodeagent`` that plugins import, besides ``hookimpl`` and ``__version__``."""

_PUBLIC = {"hookimpl", "__version__", *ALLOWED}


def check_imports(module: Module, own: Collection[str], others: Collection[str]) -> Iterator[Finding]:
    """Yield each import that is not allowed; imports for the type checker alone are.

    :param own: top-level names of the plugin's own packages.
    :param others: top-level names of other plugins' packages.
    """
    for node in _imports(module.tree):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif node.level:
            continue
        elif node.module == "nodeagent":
            targets = [f"nodeagent.{alias.name}" for alias in node.names]
        else:
            targets = [node.module or ""]
        for target in targets:
            if (found := _judge(target, own, others)) is not None:
                yield Finding(module.file, node.lineno, *found)


def _judge(target: str, own: Collection[str], others: Collection[str]) -> tuple[Rule, str] | None:
    top, _, rest = target.partition(".")
    part = rest.partition(".")[0]
    if top in own:
        return None
    if top == "nodeagent_plugins" or top in others:
        return Rule.PLUGIN_IMPORT, f"{target} belongs to another plugin; share through the agent's contracts instead"
    if top == "apiserver_stub":
        return Rule.CORE_IMPORT, f"{target} belongs to the API server; plugins speak to it through context.api"
    if top != "nodeagent" or not part or part in _PUBLIC:
        return None
    if part == "testing":
        return Rule.CORE_IMPORT, f"{target} is for tests alone"
    allowed = ", ".join(f"nodeagent.{name}" for name in ALLOWED)
    return Rule.CORE_IMPORT, f"{target} is internal and may change; plugins import nodeagent.hookimpl and {allowed}"


def _imports(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif isinstance(child, ast.If) and _for_type_checker(child.test):
            for other in child.orelse:
                yield from _imports(ast.Module(body=[other], type_ignores=[]))
        else:
            yield from _imports(child)


def _for_type_checker(test: ast.expr) -> bool:
    return getattr(test, "id", getattr(test, "attr", "")) == "TYPE_CHECKING"
