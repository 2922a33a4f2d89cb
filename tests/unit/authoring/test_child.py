"""Tests for the process that registers a plugin for its check."""

from __future__ import annotations

import importlib.metadata
import sys

import pytest

from nodeagent.authoring.child import main

SHELF = """
from nodeagent import hookimpl, hookspec

class Hooks:
    @hookspec
    async def shelf_tidied(self, books: int) -> None:
        "Called after the shelf was tidied."

@hookimpl
def nodeagent_addhooks():
    return Hooks()
"""
READER = """
from nodeagent import hookimpl

@hookimpl
async def shelf_tidied(books):
    pass
"""


@pytest.fixture
def check(tmp_path, monkeypatch):
    """Return a function that checks module ``checked_NAME`` with other modules installed as plugins."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for name, text in {"shelf": SHELF, "reader": READER}.items():
        (tmp_path / f"checked_{name}.py").write_text(text)

    def run(name, *installed):
        entries = [importlib.metadata.EntryPoint(each, f"checked_{each}", "nodeagent") for each in installed]
        monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: entries)
        return main(name, f"checked_{name}", [])

    yield run
    for name in [each for each in sys.modules if each.startswith("checked_")]:
        del sys.modules[name]


def test_hooks_of_the_plugin_have_the_prefix_of_its_name(check):
    assert "rejected" not in check("shelf")


def test_hooks_of_other_installed_plugins_are_known(check):
    assert "rejected" not in check("reader", "shelf", "missing")
    assert "unknown hook shelf_tidied" in check("reader")["rejected"]
