"""Tests for the preferences of device plugins."""

from __future__ import annotations

from typing import Any

import pytest

from nodeagent.base.pluginproto import deviceplugin_pb2 as api
from nodeagent.errors import DeviceError
from nodeagent_plugins.device_plugins.client import DevicePlugin


@pytest.mark.parametrize(("ids", "preferred"), [([], ()), (["a", "b"], ("a", "b")), (["a", "a"], None)])
async def test_device_is_preferred_once(
    monkeypatch: pytest.MonkeyPatch, ids: list[str], preferred: tuple[str, ...] | None
) -> None:
    async def call(name: str, message: Any) -> Any:
        responses = [api.ContainerPreferredAllocationResponse(deviceIDs=ids)] if ids else []
        return api.PreferredAllocationResponse(container_responses=responses)

    client = DevicePlugin("vendor.example/gpu", "/run/gpu.sock")
    monkeypatch.setattr(client, "_call", call)

    if preferred is None:
        with pytest.raises(DeviceError, match="prefers a device twice"):
            await client.prefer(["a", "b"], [], 2)
    else:
        assert await client.prefer(["a", "b"], [], 2) == preferred
