"""Checks of the complete repository: imports, hooks, log fields, generated and written pages, change fragments."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from nodeagent import hookspecs
from nodeagent.base.logging import RECORD_FIELDS
from nodeagent.testing import admit, load_plugin, make_container, make_context, make_pod

ROOT = Path(__file__).parents[2]
PACKAGES = (("nodeagent", ROOT), ("nodeagent_plugins", ROOT / "plugins"), ("apiserver_stub", ROOT))
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")))
LOG_CALLS = {"debug", "info", "warning", "error", "exception", "critical", "log"}

# Imports each module in a separate process, forked from one that has already imported the third-party libraries and
# the lower layers. Those import no other module of the repository, so that their order has no effect on the module.
IMPORTER = """
import gc, importlib, json, os, sys, traceback, warnings
import aiohttp.web, asyncio, cryptography.x509, grpc.aio, msgspec, pluggy, rich.console, uvloop, yaml
import google.protobuf.message, watchdog.observers
warnings.simplefilter("error")
layers, packages, lower = json.load(sys.stdin), sys.argv[1:], set()
for names in layers:
    gc.freeze()
    for name in names:
        child = os.fork()
        if not child:
            try:
                importlib.import_module(name)
            except BaseException:
                print(f"{name}: {traceback.format_exc(limit=-2)}", flush=True)
            os._exit(0)
        os.waitpid(child, 0)
    lower.update(names)
    for name in names:
        importlib.import_module(name)
    for name in sys.modules.keys() - lower:
        if name.partition(".")[0] in packages and getattr(sys.modules[name], "__file__", None):
            print(f"{name}: imported by a lower layer", flush=True)
"""


def sources() -> dict[str, Path]:
    """Return every module of the three packages by name."""
    found = {}
    for package, root in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def load_tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def layers():
    """Return the names of all modules by layer, the lowest one first, from the import rules."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    remaining = list(sources())
    found = []
    for contract in (contract for contract in contracts if contract["type"] == "layers"):
        (package,) = contract["containers"]
        if "." in package:
            continue  # Its modules belong to a layer of the top-level package.
        found.append([package])
        for layer in reversed(contract["layers"]):
            prefixes = tuple(f"{package}.{name}." for name in re.split(r" [|:] ", layer))
            found.append([name for name in remaining if f"{name}.".startswith(prefixes)])
    found.append([name for name in remaining if name.startswith("nodeagent_plugins.")])
    return found


@pytest.mark.timeout(600)  # hundreds of modules, one process each
def test_each_module_can_be_imported_first_without_warnings():
    names = layers()
    importer = [sys.executable, "-c", IMPORTER, *(package for package, _ in PACKAGES)]

    result = subprocess.run(
        importer, input=json.dumps(names), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )

    assert (result.returncode, result.stdout) == (0, "")
    assert sorted(name for layer in names for name in layer) == sorted(sources())


def test_generated_pages_are_current():
    pages = load_tool("gen_docs").pages()

    stale = [path.name for path, text in pages.items() if not path.is_file() or path.read_text() != text]

    assert stale == [], "run make docs"


def test_each_hook_has_a_test_with_its_name():
    hooks = {name for name in vars(hookspecs) if name.startswith("nodeagent_")}
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    tested = set(re.findall(r"def test_hook_(\w+)\(", tests))

    assert sorted(hook for hook in hooks if hook.removeprefix("nodeagent_") not in tested) == []


def test_each_hook_documents_its_calls_errors_and_parameters():
    incomplete = []
    for name, hook in vars(hookspecs).items():
        if name.startswith("nodeagent_"):
            text = inspect.getdoc(hook) or ""
            documented = set(re.findall(r":param (\w+):", text))
            if not (
                "Called: " in text and "On error: " in text and documented == set(inspect.signature(hook).parameters)
            ):
                incomplete.append(name)

    assert incomplete == []


def test_log_fields_do_not_collide_with_log_record_attributes():
    """A collision raises ``KeyError`` when the message is logged."""
    collisions = []
    for name, path in sources().items():
        for node in ast.walk(ast.parse(path.read_text())):
            if not (
                isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LOG_CALLS
            ):
                continue
            for keyword in node.keywords:
                if keyword.arg == "extra" and isinstance(keyword.value, ast.Dict):
                    keys = {key.value for key in keyword.value.keys if isinstance(key, ast.Constant)}
                    collisions += [f"{name}:{node.lineno} {key}" for key in keys & RECORD_FIELDS]

    assert collisions == []


def test_make_help_lists_each_target():
    text = (ROOT / "Makefile").read_text()
    (targets,) = re.findall(r"^\.PHONY: (.+)$", text, re.MULTILINE)
    documented = re.findall(r"^([a-z-]+):[^\n]*## \S", text, re.MULTILINE)

    assert sorted(documented) == sorted(targets.split())


def test_change_fragments_are_named_by_issue_and_type():
    names = [path.name for path in (ROOT / "changes").iterdir() if path.name != "README.md"]

    form = load_tool("changelog").FRAGMENT
    assert [n for n in names if not form.fullmatch(n)] == []


def python_blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


async def test_readme_plugin_rejects_images_of_other_registries():
    (source,) = python_blocks("README.md")
    plugin = type(sys)("readme_plugin")
    exec(source, vars(plugin))
    manager = load_plugin(plugin)

    other = await admit(manager, make_pod(containers=[make_container("a", image="evil.example/app:1")]))
    allowed = await admit(manager, make_pod(containers=[make_container("a", image="registry.example/app:1")]))

    assert other is not None
    assert other.reason == "RegistryNotAllowed"
    assert allowed is None
    assert len(source.splitlines()) <= 11


async def test_guide_plugin_passes_the_tests_of_the_guide(tmp_path):
    plugin, tests, agent_tests, suite, _ = python_blocks("docs/writing-a-plugin.md")
    (tmp_path / "image_policy.py").write_text(plugin)
    (tmp_path / "test_image_policy.py").write_text(tests)
    (tmp_path / "test_agent_with_image_policy.py").write_text(agent_tests)
    (tmp_path / "test_my_source.py").write_text(suite)

    completed = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", "."],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    assert completed.returncode == 0, completed.stdout


def test_guide_example_receives_components(tmp_path):
    *_, source = python_blocks("docs/writing-a-plugin.md")
    shelves = []
    plugin = type(sys)("shelf")
    plugin.Shelf = lambda *components: shelves.append(components) or type("Shelf", (), {})()
    exec(source, vars(plugin))
    context = make_context(tmp_path)

    load_plugin(plugin, name="shelf", context=context)

    assert shelves == [(context.pods, context.recorder)]


def test_log_messages_on_troubleshooting_page_exist():
    section = (ROOT / "docs" / "troubleshooting.md").read_text().partition("## Log messages")[2].partition("\n## ")[0]
    messages = re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)
    code = "\n".join(path.read_text() for path in sources().values())

    assert messages
    assert [message for message in messages if f'"{message}"' not in code] == []


@pytest.mark.parametrize("page", PAGES)
def test_relative_links_resolve(page):
    here = (ROOT / page).parent
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / page).read_text())

    assert [target for target in targets if not (here / target).exists()] == []
