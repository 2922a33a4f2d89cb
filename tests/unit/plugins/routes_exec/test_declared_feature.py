"""Tests for the declaration that WebSockets end at the node."""

from __future__ import annotations

import pytest

from nodeagent.base.release import Release
from nodeagent.config.features import build_gates
from nodeagent.pluginmanager import PluginManager
from nodeagent.testing import make_context
from nodeagent_plugins import routes_exec


@pytest.mark.parametrize(
    ("settings", "release", "declared"),
    [
        ({}, Release(1, 36), [["ExtendWebSocketsToKubelet"]]),
        ({"ExtendWebSocketsToNodeAgent": False}, Release(1, 36), []),
        ({"NodeDeclaredFeatures": False}, Release(1, 36), []),
        ({}, Release(1, 35), []),
    ],
)
async def test_node_declares_the_feature_by_its_gates(tmp_path, settings, release, declared):
    plugins = PluginManager()
    plugins.register(routes_exec, name="routes_exec")
    context = make_context(tmp_path, gates=build_gates(settings, release))

    plugins.provide_all("nodeagent_configure", context=context, plugins=plugins, config=context.config)

    reports = await plugins.gather("nodeagent_report_node")
    assert [list(result.value.declared_features) for result in reports] == declared
