"""Test for a server inside another process: it releases all resources."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import aiohttp

from .in_process import start


async def test_server_starts_serves_and_stops_in_process(tmp_path: Path) -> None:
    running = await start(tmp_path / "data")
    try:
        context = ssl.create_default_context(cafile=str(running.ca_file))
        headers = {"Authorization": f"Bearer {running.token}"}
        async with aiohttp.ClientSession(headers=headers) as client:
            async with client.get(f"{running.url}/api/v1/namespaces", ssl=context) as response:
                names = [item["metadata"]["name"] for item in (await response.json())["items"]]
            async with client.get(f"{running.url}/api/v1/pods?watch=1", ssl=context) as watch:
                await running.stop()
                assert await asyncio.wait_for(watch.content.read(), 5) == b""
    finally:
        await running.stop()

    assert names == ["default", "kube-node-lease", "kube-public", "kube-system"]
    assert running.kubeconfig.exists()
