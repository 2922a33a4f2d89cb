"""Tests for the routes of local volumes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from nodeagent.testing import make_context
from nodeagent.testing.contracts import RouteContract
from nodeagent_plugins.local_path import nodeagent_provide_routes, project_quota
from nodeagent_plugins.local_path.directories import LocalVolumes
from nodeagent_plugins.local_path.project_quota import QuotaUnsupported

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


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"capacity": 0}',
        b'{"capacity": "1Gi"}',
        b'{"capacity": true}',
        f'{{"capacity": {2**63}}}'.encode(),
    ],
)
async def test_invalid_capacity_is_rejected(client: TestClient[Any, Any], body: bytes) -> None:
    response = await client.post(URL, data=body)

    assert response.status == 400 and "capacity" in await response.text()


@pytest.mark.parametrize("supported", [True, False])
async def test_response_states_whether_the_capacity_is_enforced(
    client: TestClient[Any, Any], monkeypatch: pytest.MonkeyPatch, supported: bool
) -> None:
    def limit(_directory: int, _project: int, _capacity: int) -> None:
        if not supported:
            raise QuotaUnsupported("Operation not supported")

    monkeypatch.setattr(project_quota, "limit", limit)

    created = await client.post(URL, json={"capacity": 2**63 - 1})

    assert (created.status, (await created.json())["quota"]) == (200, supported)


async def test_invalid_name_is_rejected(client: TestClient[Any, Any], tmp_path: Path) -> None:
    assert (await client.delete("/localVolumes/%2e%2e%2fpods")).status == 400
    assert (await client.post("/localVolumes/A", json={"capacity": 1})).status == 400
    assert not (tmp_path / "local-volumes").exists()


async def test_unmanaged_directory_is_a_conflict(client: TestClient[Any, Any], tmp_path: Path) -> None:
    (tmp_path / "local-volumes/pvc-1/theirs").mkdir(parents=True)

    assert (await client.delete(URL)).status == 409


async def test_requests_for_a_deleted_volume_are_processed_one_at_a_time(
    client: TestClient[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    create, delete = LocalVolumes.create, LocalVolumes.delete
    deleting, creating, proceed = threading.Event(), threading.Event(), threading.Event()
    running, most = 0, 0

    def slow_delete(self: LocalVolumes, name: str) -> None:
        deleting.set()
        proceed.wait(5)
        delete(self, name)

    def slow_create(self: LocalVolumes, name: str, capacity: int) -> Any:
        nonlocal running, most
        running += 1
        most = max(most, running)
        creating.set()
        proceed.wait(5)
        try:
            return create(self, name, capacity)
        finally:
            running -= 1

    monkeypatch.setattr(LocalVolumes, "delete", slow_delete)
    monkeypatch.setattr(LocalVolumes, "create", slow_create)
    deletion = asyncio.ensure_future(client.delete(URL))
    await asyncio.to_thread(deleting.wait, 5)
    first = asyncio.ensure_future(client.post(URL, json={"capacity": 1}))
    await asyncio.sleep(0.05)
    proceed.set()
    await deletion
    proceed.clear()
    await asyncio.to_thread(creating.wait, 5)
    second = asyncio.ensure_future(client.post(URL, json={"capacity": 2}))
    await asyncio.sleep(0.05)
    proceed.set()

    assert [(await each).status for each in (first, second)] == [200, 200] and most == 1
