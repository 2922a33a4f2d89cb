"""Tests for plugins of the API server: the examples of docs/api-server-internals.md, used with kubectl."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.integration.apiserver.conftest import Server
from tests.integration.docs.blocks import ROOT, blocks

PAGE = "docs/api-server-internals.md"
WIDGET = {
    "apiVersion": "widgets.example.com/v1",
    "kind": "Widget",
    "metadata": {"name": "one", "namespace": "default"},
    "spec": {"parts": [{"name": "handle", "color": "red"}]},
}


def install(directory: Path, name: str) -> None:
    """Install the example *name* of the page as a distribution in *directory*."""
    for block in blocks(PAGE):
        file = dict(block.notes).get("file", "")
        if file.startswith(f"{name}/"):
            path = directory / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
            if path.suffix == ".proto":
                command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", f"-I{ROOT}", "--python_out=.", file]
                subprocess.run(command, cwd=directory, check=True, timeout=120)
    information = directory / f"{name}-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(f"[nodeagent_apiserver]\n{name} = {name}\n")


@pytest.fixture(scope="module")
def widgets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    packages = tmp_path_factory.mktemp("packages")
    install(packages, "widgets")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(packages), os.environ.get("PYTHONPATH", "")]))
        server = Server(tmp_path_factory.mktemp("apiserver"))
    yield server
    assert server.stop() == 0


def test_kind_of_a_plugin_is_served_like_any_other(widgets: Server) -> None:
    applied = widgets.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump(WIDGET))
    table = widgets.kubectl("get", "wd", "one").splitlines()
    explained = widgets.kubectl("explain", "widget.spec.parts")

    assert applied == "widget.widgets.example.com/one serverside-applied\n"
    assert [line.split()[:2] for line in table] == [["NAME", "SIZE"], ["one", "3"]]
    assert "parts <[]" in explained and "color" in explained


def test_validation_rules_of_a_plugin_reject_an_invalid_object(widgets: Server) -> None:
    large = {**WIDGET, "metadata": {"name": "large", "namespace": "default"}, "spec": {"size": 11}}

    rejection = widgets.kubectl("create", "-f", "-", stdin=json.dumps(large), code=1)

    text = 'The Widget "large" is invalid: spec.size: Invalid value: 11: must be between 1 and 10, inclusive'
    assert text in rejection


def test_schema_of_a_plugin_rejects_unknown_fields_and_merges_lists(widgets: Server) -> None:
    two = {**WIDGET, "metadata": {"name": "two", "namespace": "default"}}
    widgets.kubectl("create", "-f", "-", stdin=json.dumps(two))
    unknown = {**two, "metadata": {"name": "three", "namespace": "default"}, "spec": {"colour": "red"}}

    rejection = widgets.kubectl("create", "-f", "-", stdin=json.dumps(unknown), code=1)
    patch = {"spec": {"parts": [{"name": "lid", "color": "blue"}]}}
    widgets.kubectl("patch", "widget", "two", "--type=strategic", "-p", json.dumps(patch))
    parts = json.loads(widgets.kubectl("get", "widget", "two", "-o", "json"))["spec"]["parts"]

    assert 'unknown field "colour" in com.example.widgets.v1.WidgetSpec' in rejection
    assert sorted(part["name"] for part in parts) == ["handle", "lid"]


def test_plugin_that_cannot_be_imported_prevents_startup(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    install(packages, "broken")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(packages), os.environ.get("PYTHONPATH", "")])}

    command = [sys.executable, "-m", "apiserver_stub", f"--data-dir={tmp_path / 'data'}", "--secure-port=0"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)

    assert ended.returncode == 2
    assert "Error: plugin broken of broken: ModuleNotFoundError: No module named 'broken'" in ended.stderr
