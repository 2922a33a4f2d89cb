"""Check for imports that plugins must not use: internals of the agent, test fakes, the API server, other plugins."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

import nodeagent
from nodeagent.authoring.findings import Finding, Rule
from nodeagent.authoring.source import Module

ALLOWED = ("base", "contracts", "errors", "local_client", "model")
"""Modules and packages of ``nodeagent`` that plugins may import, in addition to the names of ``nodeagent`` itself."""

_PUBLIC = {*nodeagent.__all__, *ALLOWED}


def check_imports(module: Module, own: Collection[str], others: Collection[str]) -> Iterator[Finding]:
    """Yield a finding for each import that is not allowed; imports under ``TYPE_CHECKING`` count.

    :param own: top-level packages of this plugin.
    :param others: top-level packages of other plugins.
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
            if (violation := _check(target, own, others)) is not None:
                yield Finding(module.file, node.lineno, *violation)


def _check(target: str, own: Collection[str], others: Collection[str]) -> tuple[Rule, str] | None:
    top, _, rest = target.partition(".")
    part = rest.partition(".")[0]
    if top in own:
        return None
    if top == "nodeagent_plugins" or top in others:
        return Rule.PLUGIN_IMPORT, f"{target} belongs to another plugin; use hooks and contracts of the agent instead"
    if top == "apiserver_stub":
        return Rule.CORE_IMPORT, f"{target} belongs to the API server; use context.api instead"
    if top != "nodeagent" or not part or part in _PUBLIC:
        return None
    if part == "testing":
        return Rule.CORE_IMPORT, f"{target} is only for tests"
    allowed = ", ".join(f"nodeagent.{name}" for name in ALLOWED)
    return Rule.CORE_IMPORT, f"{target} is internal and may change; use only nodeagent.hookimpl and {allowed}"


def _imports(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
