"""Contract tests for handlers of node plugins that register with a socket."""

from __future__ import annotations

import dataclasses

import pytest

from nodeagent.contracts.plugin_registry import PluginHandler, RegisteredPlugin
from nodeagent.errors import PluginRegistrationError


class PluginHandlerContract:
    """Contract of :class:`PluginHandler`. Override the fixtures ``handler`` and ``plugin``."""

    @pytest.fixture
    def handler(self) -> PluginHandler:
        """The implementation to test."""
        raise NotImplementedError

    @pytest.fixture
    def plugin(self) -> RegisteredPlugin:
        """A plugin that the handler accepts and can use."""
        raise NotImplementedError

    def test_type_is_not_empty(self, handler: PluginHandler, plugin: RegisteredPlugin) -> None:
        assert handler.plugin_type == plugin.type != ""

    async def test_plugin_can_register_again_after_deregistration(
        self, handler: PluginHandler, plugin: RegisteredPlugin
    ) -> None:
        for _ in range(2):
            await handler.validate(plugin)
            await handler.register(plugin)
            await handler.deregister(plugin)

    async def test_deregistration_is_idempotent(self, handler: PluginHandler, plugin: RegisteredPlugin) -> None:
        await handler.deregister(plugin)
        await handler.deregister(plugin)

    async def test_unsupported_versions_are_rejected(self, handler: PluginHandler, plugin: RegisteredPlugin) -> None:
        unsupported = dataclasses.replace(plugin, versions=["v999.0.0"])
        with pytest.raises(PluginRegistrationError):
            await handler.validate(unsupported)
