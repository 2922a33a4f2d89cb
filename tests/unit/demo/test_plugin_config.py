"""Tests for the plugin configuration of the demo's agent."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nodeagent.demo.plugin_config import plugin_config
from nodeagent.demo.processes import DemoError

LOGS = Path("/demo/logs")


def test_demo_has_its_own_directory_for_logs():
    assert plugin_config(LOGS, None) == {"plugins": {"pod_sync": {"log_root": "/demo/logs"}}}


def test_settings_of_the_user_are_kept(tmp_path):
    file = tmp_path / "plugins.yaml"
    file.write_text("requiredPlugins: [shelf]\nplugins: {shelf: {books: 3}, pod_sync: {log_root: /other, more: 1}}\n")

    assert plugin_config(LOGS, file) == {
        "requiredPlugins": ["shelf"],
        "plugins": {"shelf": {"books": 3}, "pod_sync": {"log_root": "/demo/logs", "more": 1}},
    }


@pytest.mark.parametrize("text", ["- shelf", "plugins: [shelf]", "plugins: {"])
def test_invalid_file_is_an_error_with_its_name(tmp_path, text):
    file = tmp_path / "plugins.yaml"
    file.write_text(text)

    with pytest.raises(DemoError, match=re.escape(str(file))):
        plugin_config(LOGS, file)


def test_missing_file_is_an_error_with_its_name(tmp_path):
    with pytest.raises(DemoError, match=r"missing\.yaml"):
        plugin_config(LOGS, tmp_path / "missing.yaml")
