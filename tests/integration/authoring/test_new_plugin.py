"""Tests for ``nodeagent plugins new`` and ``check`` with an installed project: tests, lint and types pass."""

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
    directory = tmp_path_factory.mktemp("scaffold")
    run(TOOLS / "nodeagent", "plugins", "new", "paper_shelf", "--dir", "shelf", cwd=directory)
    return directory / "shelf"


@pytest.fixture(scope="module")
def environment(project):
    environment = Environment(project.parent / "venv")
    environment.install(project)
    return environment


def test_installed_project_is_listed(environment, tmp_path):
    listed = environment.run("-m", "nodeagent", "plugins", "list", "-o", "json", "--root-dir", tmp_path).stdout
    plugins = {plugin["name"]: plugin for plugin in json.loads(listed)["plugins"]}
    assert (plugins["paper_shelf"]["origin"], plugins["paper_shelf"]["state"]) == ("nodeagent-paper-shelf", "loaded")


def test_tests_of_the_project_pass(environment, project):
    done = environment.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", project, project / "tests")
    assert "10 passed" in done.stdout


def test_lint_formatting_and_types_pass(project):
    run(TOOLS / "ruff", "check", "--no-cache", ".", cwd=project)
    run(TOOLS / "ruff", "format", "--no-cache", "--check", ".", cwd=project)
    run(TOOLS / "mypy", "--cache-dir", project.parent / "mypy", cwd=project)


def test_check_of_the_project_has_no_findings(project):
    assert json.loads(run(TOOLS / "nodeagent", "plugins", "check", ".", "-o", "json", cwd=project)) == []


# --- findings of the load check -------------------------------------------------------------------------------

HEAD = "from nodeagent import hookimpl\n"
HOOK = "@hookimpl\nasync def nodeagent_admit_pod(pod): pass\n"


def check(tmp_path, source, *options, code=1):
    (tmp_path / "shelf.py").write_text(HEAD + source)
    out = run(TOOLS / "nodeagent", "plugins", "check", "shelf.py", "-o", "json", *options, cwd=tmp_path, code=code)
    return [(one["line"], one["rule"], one["message"]) for one in json.loads(out)]


def test_slow_import_is_reported_with_the_threshold(tmp_path):
    source = f"import time\ntime.sleep(0.06)\n{HOOK}"
    ((line, rule, message),) = check(tmp_path, source, "--import-seconds", "0.05")
    assert (line, rule) == (1, "slow-import")
    assert "more than 0.05 s" in message
    assert check(tmp_path, source, "--import-seconds", "10", code=0) == []


def test_failing_import_is_reported_with_the_line(tmp_path):
    ((line, rule, message),) = check(tmp_path, f"{HOOK}import nobody_has_this\n")
    assert (line, rule) == (4, "import-fails")
    assert "No module named 'nobody_has_this'" in message
    assert check(tmp_path, "import nobody_has_this\n" + HOOK, "--no-import", code=0) == []


def test_plugin_that_exits_the_process_is_reported(tmp_path):
    ((_, rule, _),) = check(tmp_path, f"{HOOK}import os\nos._exit(3)\n")
    assert rule == "import-fails"


@pytest.mark.parametrize("schema", ["{'type': 'array'}", "{'type': 'object', 'properties': 1}", "1 / 0"])
def test_invalid_schema_is_reported(tmp_path, schema):
    source = f"@hookimpl\ndef nodeagent_settings_schema():\n    return {schema}\n"
    ((_, rule, message),) = check(tmp_path, source)
    assert rule == "settings-schema"
    assert message.startswith("invalid nodeagent_settings_schema")


def test_rejection_by_the_agent_is_reported(tmp_path):
    source = f"{HOOK}\ndef odd(pod): pass\nnodeagent_pod_terminated = hookimpl(odd)\n"
    ((_, rule, message),) = check(tmp_path, source)
    assert rule == "rejected"
    assert "nodeagent_pod_terminated must be an async def" in message


def test_findings_are_printed_with_count_and_exit_code(tmp_path):
    (tmp_path / "shelf.py").write_text(HEAD + "@hookimpl\ndef nodeagent_admit_pod(pods): pass\n")
    out = run(TOOLS / "nodeagent", "plugins", "check", "shelf.py", cwd=tmp_path, code=1)
    first, second, count = out.splitlines()
    assert first.startswith("shelf.py:3: argument: ")
    assert second.startswith("shelf.py:3: async: ")
    assert count == "2 problems found"
    run(TOOLS / "nodeagent", "plugins", "check", "elsewhere", cwd=tmp_path, code=2)
