"""Tests for the hooks of the plugin ``device_plugins``."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nodeagent.contracts.plugin_registry import RegisteredPlugin
from nodeagent.testing import eventually, load_plugin, make_context
from nodeagent_plugins import device_plugins


@pytest.mark.parametrize("configured", [True, False])
async def test_socket_is_served_in_the_configured_directory(tmp_path: Path, configured: bool) -> None:
    settings = {"device_plugins": {"directory": str(tmp_path / "own")}} if configured else {}
    context = make_context(tmp_path, plugin_settings=settings)
    manager = load_plugin(device_plugins, context=context)
    (result,) = manager.provide_all("nodeagent_provide_background_loops", context=context, plugins=manager)
    (loop,) = result.value

    task = asyncio.create_task(loop.run())
    await eventually((tmp_path / ("own" if configured else "device-plugins") / "kubelet.sock").exists)

    task.cancel()
    await asyncio.wait([task])


async def test_device_plugins_register_with_the_plugin_registry(tmp_path: Path) -> None:
    context = make_context(tmp_path)
    manager = load_plugin(device_plugins, context=context)

    (result,) = manager.provide_all("nodeagent_provide_plugin_handlers", context=context)

    (handler,) = result.value
    assert handler.plugin_type == "DevicePlugin"
    await handler.validate(RegisteredPlugin("DevicePlugin", "example.com/widget", "/w.sock", ["v1beta1"], "/r.sock"))
