"""Tests for the import of installed plugins."""

from __future__ import annotations

import importlib.metadata
import sys
from importlib.metadata import EntryPoint
from types import SimpleNamespace

import pytest

from nodeagent.pluginmanager.plugin_modules import import_again, package_of


def test_editable_installation_since_the_start_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    site, project = tmp_path / "site", tmp_path / "project"
    site.mkdir()
    (project / "editable_shelf").mkdir(parents=True)
    (project / "editable_shelf/__init__.py").write_text("BOOKS = 3")
    (site / "_shelf.pth").write_text(f"{project}\n")
    entry = importlib.metadata.EntryPoint("shelf", "editable_shelf", "nodeagent")
    vars(entry)["dist"] = SimpleNamespace(locate_file=lambda name: site / name)

    plugin, _ = import_again(entry, "editable_shelf")

    assert plugin.BOOKS == 3
    del sys.modules["editable_shelf"]


def entry(name, module):
    return EntryPoint(name, f"{module}:Plugin", "nodeagent")


@pytest.mark.parametrize(
    ("others", "package"),
    [
        ([], "shelf"),
        ([entry("books", "shelf.books")], "shelf"),
        ([entry("other", "shelves.books"), entry("more", "other")], "shelf"),
        ([entry("other", "other"), entry("more", "shelf.more")], "shelf.books"),
    ],
)
def test_package_with_other_plugins_is_not_imported_again(others, package):
    assert package_of(entry("books", "shelf.books"), others) == package
