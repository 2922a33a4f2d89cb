"""Tests for ``nodeagent plugins new --out-of-process``, and ``check`` of out-of-process plugins."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nodeagent_plugins.external_plugins.settings import CAPABILITIES
from tests import external_plugin

TOOLS = Path(sys.executable).parent
NODEAGENT = [sys.executable, "-m", "nodeagent", "plugins"]
ROOT = Path(__file__).parents[3]
PLUGIN = Path(external_plugin.__file__).with_name("__main__.py")


def run(*command: object, cwd: Path, code: int = 0) -> str:
    done = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("scaffold")
    run(*NODEAGENT, "new", "paper_shelf", "--out-of-process", "--dir", "shelf", cwd=directory)
    return directory / "shelf"


def test_tests_lint_and_types_of_the_project_pass(project: Path) -> None:
    assert "5 passed" in run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=project)
    run(TOOLS / "ruff", "check", "--no-cache", ".", cwd=project)
    run(TOOLS / "ruff", "format", "--no-cache", "--check", ".", cwd=project)
    run(TOOLS / "mypy", "--cache-dir", project.parent / "mypy", cwd=project)


def check(project: Path, code: int = 1) -> list[str]:
    """Return the messages of the findings."""
    out = run(*NODEAGENT, "check", ".", "-o", "json", cwd=project, code=code)
    return [finding["message"] for finding in json.loads(out)]


def write(directory: Path, **fields: object) -> None:
    (directory / "nodeagent-plugin.yaml").write_text(json.dumps(fields))


def test_check_of_the_project_has_no_findings(project: Path) -> None:
    assert check(project, code=0) == []


def test_check_calls_each_capability(tmp_path: Path) -> None:
    environment = {"PYTHONPATH": f"{ROOT}:{ROOT / 'plugins'}", "GO": str(tmp_path / "go")}
    write(
        tmp_path,
        name="shelf",
        command=[sys.executable, str(PLUGIN)],
        capabilities=[name for name in CAPABILITIES if name != "credentials"],
        volumeDrivers=["shelf.example"],
        env=environment,
    )
    assert check(tmp_path, code=0) == []

    write(
        tmp_path,
        name="shelf",
        command=[sys.executable, str(PLUGIN)],
        capabilities=["admission", "credentials"],
        env=environment,
    )
    assert [message.partition(": ")[0] for message in check(tmp_path)] == ["capability credentials"]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["./missing"], "exited with code 127 before it served its socket"),
        (["sh", "-c", "exit 3"], "the plugin exited with code 3 before it served its socket"),
        (["sleep", "60"], "the plugin did not serve its socket within 0.3 s"),
    ],
)
def test_plugin_that_does_not_start_is_reported(tmp_path: Path, command: list[str], message: str) -> None:
    write(tmp_path, name="shelf", command=command, capabilities=["admission"], startSeconds=0.3)

    assert message in check(tmp_path)[0]


def test_invalid_description_is_reported_with_its_paths(tmp_path: Path) -> None:
    write(tmp_path, name="shelf", command=["true"], capabilities=["fly"])
    assert check(tmp_path)[0].startswith("nodeagent-plugin.yaml: capabilities.0: 'fly' is not one of")

    write(tmp_path, name="Shelf", command=["nothing-of-this-name"], capabilities=["volumes"])
    found = check(tmp_path)
    assert [each.split(": ")[1] for each in found] == ["name", "command[0]", "volumeDrivers"]
