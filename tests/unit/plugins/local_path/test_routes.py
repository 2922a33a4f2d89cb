"""Tests for the routes of local volumes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from nodeagent.testing import make_context
from nodeagent.testing.contracts import RouteContract
from nodeagent_plugins.local_path import nodeagent_provide_routes

URL = "/localVolumes/pvc-1"


class TestLocalPathRoutes(RouteContract):
    @pytest.fixture
    async def routes(self, tmp_path: Path) -> Any:
        return nodeagent_provide_routes(make_context(tmp_path))


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[TestClient[Any, Any]]:
    app = web.Application()
    for route in nodeagent_provide_routes(make_context(tmp_path)):
        app.router.add_route(route.method, route.path, route.handler)
    async with TestClient(TestServer(app)) as client:
        yield client


async def test_volume_is_created_and_deleted(client: TestClient[Any, Any], tmp_path: Path) -> None:
    created = await client.post(URL, json={"capacity": 4096})
    path = Path((await created.json())["path"])
    assert created.status == 200 and path.is_dir() and path.is_relative_to(tmp_path / "local-volumes")

    assert [(await client.delete(URL)).status for _ in range(2)] == [200, 200]
    assert not path.exists()


@pytest.mark.parametrize("body", [b"", b"[]", b'{"capacity": 0}', b'{"capacity": "1Gi"}', b'{"capacity": true}'])
async def test_invalid_capacity_is_rejected(client: TestClient[Any, Any], body: bytes) -> None:
    response = await client.post(URL, data=body)

    assert response.status == 400 and "capacity" in await response.text()


async def test_invalid_name_is_rejected(client: TestClient[Any, Any], tmp_path: Path) -> None:
    assert (await client.delete("/localVolumes/%2e%2e%2fpods")).status == 400
    assert (await client.post("/localVolumes/A", json={"capacity": 1})).status == 400
    assert not (tmp_path / "local-volumes").exists()


async def test_unmanaged_directory_is_a_conflict(client: TestClient[Any, Any], tmp_path: Path) -> None:
    (tmp_path / "local-volumes/pvc-1/theirs").mkdir(parents=True)

    assert (await client.delete(URL)).status == 409
