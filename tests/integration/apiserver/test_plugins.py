"""Tests for plugins of the API server: the examples of docs/api-server-internals.md, used with kubectl."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def server_with(name: str, directory: Path, *flags: str) -> Iterator[Server]:
    """Run a server with *flags* that has the example *name* installed."""
    packages = directory / "packages"
    packages.mkdir(parents=True)
    install(packages, name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(packages), os.environ.get("PYTHONPATH", "")]))
        server = Server(directory / "apiserver", *flags)
    try:
        yield server
    finally:
        assert server.stop() == 0


@pytest.fixture(scope="module")
def widgets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server_with("widgets", tmp_path_factory.mktemp("widgets")) as server:
        yield server


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
    unknown = {**two, "metadata": {"name": "three", "namespace": "default"}, "spec": {"color": "red"}}

    rejection = widgets.kubectl("create", "-f", "-", stdin=json.dumps(unknown), code=1)
    patch = {"spec": {"parts": [{"name": "lid", "color": "blue"}]}}
    widgets.kubectl("patch", "widget", "two", "--type=strategic", "-p", json.dumps(patch))
    parts = json.loads(widgets.kubectl("get", "widget", "two", "-o", "json"))["spec"]["parts"]

    # kubectl up to 1.24 checks the schema itself, newer ones let the server check.
    texts = ('unknown field "color" in com.example.widgets.v1.WidgetSpec', 'unknown field "spec.color"')
    assert any(text in rejection for text in texts)
    assert sorted(part["name"] for part in parts) == ["handle", "lid"]


@pytest.mark.row("opt.enable-admission-plugins")
def test_admission_plugin_of_a_distribution_rejects_pods(tmp_path: Path) -> None:
    with server_with("required_label", tmp_path) as server:
        rejected = server.kubectl("run", "web", "--image=nginx", code=1)
        created = server.kubectl("run", "web", "--image=nginx", "--labels=team=a")

    assert rejected == 'Error from server (Forbidden): pods "web" is forbidden: the label "team" is required\n'
    assert created == "pod/web created\n"


@pytest.mark.row("opt.admission-control-config-file")
def test_admission_plugin_of_a_distribution_has_its_configuration(tmp_path: Path) -> None:
    config = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": [{"name": "RequiredLabel", "configuration": {"label": "owner"}}],
    }
    path = tmp_path / "admission.yaml"
    path.write_text(yaml.safe_dump(config))

    with server_with("required_label", tmp_path, f"--admission-control-config-file={path}") as server:
        rejected = server.kubectl("run", "web", "--image=nginx", "--labels=team=a", code=1)

    assert 'pods "web" is forbidden: the label "owner" is required' in rejected


@pytest.mark.row("opt.disable-admission-plugins")
def test_admission_plugin_of_a_distribution_is_disabled_by_name(tmp_path: Path) -> None:
    with server_with("required_label", tmp_path, "--disable-admission-plugins=RequiredLabel") as server:
        created = server.kubectl("run", "web", "--image=nginx")

    assert created == "pod/web created\n"


def test_plugin_that_cannot_be_imported_prevents_startup(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    install(packages, "broken")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(packages), os.environ.get("PYTHONPATH", "")])}

    command = [sys.executable, "-m", "apiserver_stub", f"--data-dir={tmp_path / 'data'}", "--free-port"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)

    assert ended.returncode == 2
    assert "Error: plugin broken of broken: ModuleNotFoundError: No module named 'broken'" in ended.stderr
