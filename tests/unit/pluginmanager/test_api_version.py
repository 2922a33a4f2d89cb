"""Tests for the API version that plugins declare."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from nodeagent.errors import PluginError
from nodeagent.pluginmanager import PluginManager


@pytest.mark.parametrize("declared", [None, ("1.0", "2.0"), ("0.9", "1.1")])
def test_plugin_for_this_version_is_accepted(declared):
    plugin = SimpleNamespace(**({} if declared is None else {"nodeagent_api": declared}))

    PluginManager().register(plugin, name="shelf")


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        (("2.0", "3.0"), r"needs hook API version 2\.0 or newer and older than 3\.0; this agent has version 1\.0"),
        (("0.5", "1.0"), r"this agent has version 1\.0"),
        ("1.0", "nodeagent_api must be a tuple .*, not '1.0'"),
        ("12", "nodeagent_api must be a tuple .*, not '12'"),
        (("1.0",), r"nodeagent_api must be a tuple .*, not \('1.0',\)"),
        (("1.0", "2.0", "3.0"), "nodeagent_api must be a tuple"),
        (("1", "2.0"), "nodeagent_api must be a tuple"),
    ],
)
def test_plugin_for_another_version_is_rejected(declared, text):
    manager = PluginManager()

    with pytest.raises(PluginError, match=text):
        manager.register(SimpleNamespace(nodeagent_api=declared), name="shelf")
    assert manager.plugins() == []
