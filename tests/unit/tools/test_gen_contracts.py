"""Tests for the generated contract pages: every contract has a page, hooks link to it, and docstrings are complete."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


gen_contracts = load("gen_contracts")
MODULES = gen_contracts.modules()
PROTOCOLS = [
    pytest.param(kind, id=kind.name) for module in MODULES for kind in module.classes if gen_contracts.is_protocol(kind)
]


def section(page: str, heading: str) -> str:
    """Return the text of *page* below *heading*."""
    level = heading.partition(" ")[0]
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.split(rf"^#{{2,{len(level)}}} ", text.partition(f"\n{heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def test_every_contract_module_has_a_page_in_the_navigation():
    names = {path.stem for path in (ROOT / "nodeagent" / "contracts").glob("*.py")}
    documented = {module.name for module in MODULES}
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")

    assert names - documented == {"__init__", gen_contracts.CONFIGURATION}
    assert [module.path for module in MODULES if f" {module.path}\n" not in navigation] == []


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_page_documents_every_class_method_and_error(module):
    for kind in module.classes:
        assert section(module.path, f"## {kind.name}"), kind.name
        for method in gen_contracts.methods(kind):
            text = section(module.path, f"### `{kind.name}.{method.name}`")
            docstring = gen_contracts.parse_docstring(method)
            assert f"def {method.name}(" in text
            assert all(f"- `{argument.arg}`" in text for argument in gen_contracts.arguments_of(method))
            assert all(
                f"**Raises** {gen_contracts._link(name, gen_contracts.targets())}" in text
                for name, _ in docstring.raises
            )


def test_every_hook_links_to_the_contracts_of_its_signature():
    gen_docs = load("gen_docs")
    targets = gen_contracts.targets()

    for hook in gen_docs.hooks():
        text = section("hooks.md", f"### {hook.name}")
        names = [name for name in hook.passed | hook.returned if name in targets]
        assert [name for name in names if f"[`{name}`]({targets[name]})" not in text] == [], hook.name


def test_contract_page_links_back_to_its_hooks():
    text = section("contracts/runtime.md", "## ContainerRuntime")

    assert "**Returned by:** [`nodeagent_provide_runtime`](../hooks.md#nodeagent_provide_runtime)" in text
    assert "**Available as:** `context.runtime`, first in [`RuntimeContext`](context.md#runtimecontext)" in text


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_protocol_documents_arguments_and_errors(kind):
    incomplete = []
    states_errors = "raise" in gen_contracts.parse_docstring(kind).text
    for method in gen_contracts.methods(kind):
        docstring = gen_contracts.parse_docstring(method)
        missing = [a.arg for a in gen_contracts.arguments_of(method) if a.arg not in docstring.parameters]
        errors = docstring.raises or states_errors or re.search(r"\braised?s?\b", docstring.text)
        if not docstring.text or missing or (isinstance(method, ast.AsyncFunctionDef) and not errors):
            incomplete.append((method.name, missing))

    assert incomplete == []
