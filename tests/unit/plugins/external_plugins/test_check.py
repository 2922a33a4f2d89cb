"""Tests for the check of projects with an out-of-process plugin."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from nodeagent.contracts.plugin_checks import PluginCheck
from nodeagent.testing import load_plugin
from nodeagent.testing.contracts import PluginCheckContract
from nodeagent_plugins import external_plugins
from nodeagent_plugins.external_plugins.check import CHECKS
from nodeagent_plugins.external_plugins.settings import CAPABILITIES


class TestProjectCheck(PluginCheckContract):
    @pytest.fixture
    async def checks(self) -> Sequence[PluginCheck]:
        plugins = load_plugin(external_plugins, name="external_plugins")
        (result,) = plugins.provide_all("nodeagent_provide_plugin_checks", plugins=plugins)
        return result.value  # type: ignore[no-any-return]

    def test_hook_provide_plugin_checks(self, checks: Sequence[PluginCheck]) -> None:
        assert [check.file_name for check in checks] == ["nodeagent-plugin.yaml"]


def test_each_capability_has_a_check() -> None:
    assert set(CHECKS) == set(CAPABILITIES)
