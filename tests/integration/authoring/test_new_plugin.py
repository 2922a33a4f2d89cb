"""A new plugin is created, installed, listed and checked, and its own tests, lint and types pass at once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.plugins.test_example_policy import Environment

TOOLS = Path(sys.executable).parent


def run(*command, cwd, code=0):
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scaffold")
    run(TOOLS / "nodeagent", "plugins", "new", "paper_shelf", "--dir", "shelf", cwd=folder)
    return folder / "shelf"


@pytest.fixture(scope="module")
def environment(project):
    made = Environment(project.parent / "venv")
    made.install(project)
    return made


def test_it_is_installed_and_listed(environment, tmp_path):
    listed = environment.run("-m", "nodeagent", "plugins", "list", "-o", "json", "--root-dir", tmp_path).stdout
    plugins = {plugin["name"]: plugin for plugin in json.loads(listed)["plugins"]}
    assert (plugins["paper_shelf"]["origin"], plugins["paper_shelf"]["state"]) == ("nodeagent-paper-shelf", "loaded")


def test_its_tests_pass(environment, project):
    done = environment.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", project, project / "tests")
    assert "9 passed" in done.stdout


def test_lint_formatting_and_types_pass(project):
    run(TOOLS / "ruff", "check", "--no-cache", ".", cwd=project)
    run(TOOLS / "ruff", "format", "--no-cache", "--check", ".", cwd=project)
    run(TOOLS / "mypy", "--cache-dir", project.parent / "mypy", cwd=project)


def test_the_check_finds_nothing(project):
    assert json.loads(run(TOOLS / "nodeagent", "plugins", "check", ".", "-o", "json", cwd=project)) == []


# --- what shows only when a plugin is loaded ------------------------------------------------------------------

HEAD = "from nodeagent import hookimpl\n"
HOOK = "@hookimpl\nasync def nodeagent_admit_pod(pod): pass\n"


def check(tmp_path, source, *options, code=1):
    (tmp_path / "shelf.py").write_text(HEAD + source)
    out = run(TOOLS / "nodeagent", "plugins", "check", "shelf.py", "-o", "json", *options, cwd=tmp_path, code=code)
    return [(one["line"], one["rule"], one["message"]) for one in json.loads(out)]


def test_a_slow_import_is_told_with_the_threshold(tmp_path):
    source = f"import time\ntime.sleep(0.06)\n{HOOK}"
    ((line, rule, message),) = check(tmp_path, source, "--import-seconds", "0.05")
    assert (line, rule) == (1, "slow-import")
    assert "more than 0.05 s" in message
    assert check(tmp_path, source, "--import-seconds", "10", code=0) == []


def test_a_plugin_that_cannot_be_imported_is_told_with_the_line(tmp_path):
    ((line, rule, message),) = check(tmp_path, f"{HOOK}import nobody_has_this\n")
    assert (line, rule) == (4, "import-fails")
    assert "No module named 'nobody_has_this'" in message
    assert check(tmp_path, "import nobody_has_this\n" + HOOK, "--no-import", code=0) == []


def test_a_plugin_that_ends_the_process_is_told(tmp_path):
    ((_, rule, _),) = check(tmp_path, f"{HOOK}import os\nos._exit(3)\n")
    assert rule == "import-fails"


@pytest.mark.parametrize("schema", ["{'type': 'array'}", "{'type': 'object', 'properties': 1}", "1 / 0"])
def test_a_schema_that_is_none_is_told(tmp_path, schema):
    source = f"@hookimpl\ndef nodeagent_settings_schema():\n    return {schema}\n"
    ((_, rule, message),) = check(tmp_path, source)
    assert rule == "settings-schema"
    assert message.startswith("invalid nodeagent_settings_schema")


def test_what_only_the_agent_sees_is_told(tmp_path):
    source = f"{HOOK}\ndef odd(pod): pass\nnodeagent_pod_terminated = hookimpl(odd)\n"
    ((_, rule, message),) = check(tmp_path, source)
    assert rule == "rejected"
    assert "nodeagent_pod_terminated must be an async def" in message


def test_findings_are_lines_with_a_count_and_an_exit_code(tmp_path):
    (tmp_path / "shelf.py").write_text(HEAD + "@hookimpl\ndef nodeagent_admit_pod(pods): pass\n")
    out = run(TOOLS / "nodeagent", "plugins", "check", "shelf.py", cwd=tmp_path, code=1)
    first, second, count = out.splitlines()
    assert first.startswith("shelf.py:3: argument: ")
    assert second.startswith("shelf.py:3: async: ")
    assert count == "2 problems found"
    run(TOOLS / "nodeagent", "plugins", "check", "elsewhere", cwd=tmp_path, code=2)
