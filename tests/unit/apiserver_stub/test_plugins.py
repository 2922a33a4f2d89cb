"""Tests for the search of entry points, which avoids loading the metadata of distributions."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from apiserver_stub import plugins

LOADED = """
import json, sys
from apiserver_stub.options import parse
import apiserver_stub.server.startup
parse([])
print(json.dumps(sorted(sys.modules)))
"""


@pytest.mark.parametrize("kind", ["dist-info", "egg-info", "archive"])
def test_entry_point_of_a_distribution_is_found(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "[nodeagent_apiserver]\nmine = some.module\n"
    monkeypatch.syspath_prepend(tmp_path / "plugin.zip" if kind == "archive" else tmp_path)
    if kind == "archive":
        with zipfile.ZipFile(tmp_path / "plugin.zip", "w") as archive:
            archive.writestr("plugin-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: plugin\nVersion: 1\n")
            archive.writestr("plugin-1.dist-info/entry_points.txt", text)
    else:
        directory = tmp_path / f"plugin-1.{kind}"
        directory.mkdir()
        (directory / ("METADATA" if kind == "dist-info" else "PKG-INFO")).write_text(
            "Metadata-Version: 2.1\nName: plugin\nVersion: 1\n"
        )
        (directory / "entry_points.txt").write_text(text)

    assert [item.name for item in plugins.entry_points(group=plugins.GROUP)] == ["mine"]
    assert list(plugins.entry_points(group="nodeagent_apiserver_unused")) == []


def test_libraries_are_not_imported_at_the_start_of_the_server() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], check=True, capture_output=True, text=True)

    unused = {"aiohttp", "email", "importlib.metadata", "jwt", "pickle", "tempfile", "yaml"}
    assert unused.intersection(json.loads(done.stdout)) == set()
