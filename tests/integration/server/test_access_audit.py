"""Tests for the audit of accesses over the secured port."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from nodeagent import hookimpl
from nodeagent.contracts.server import Exposure, Route
from nodeagent.testing import FakePodDirectory, make_pod
from tests.integration.server.conftest import Pki, serving

PODS = FakePodDirectory(make_pod("web", containers=["main"]))
LOGS = "/containerLogs/default/web/main"


async def entries(file: Path, count: int) -> list[dict[str, Any]]:
    """Return the entries once there are *count*."""
    async with asyncio.timeout(10):
        while not file.exists() or len(lines := file.read_text().splitlines()) < count:
            await asyncio.sleep(0.02)
    assert len(lines) == count
    return [json.loads(line) for line in lines]


async def test_each_access_to_logs_and_containers_is_recorded_with_its_user(pki: Pki, tmp_path: Path) -> None:
    file = tmp_path / "audit" / "access.log"
    async with serving(pki, tmp_path, parts={"pods": PODS}) as server:
        await server.fetch(LOGS + "?tailLines=1", token="viewer-token", headers={"User-Agent": "curl"})
        received, ended = await entries(file, 2)

        await server.fetch("/exec/default/web/main?command=id&output=1", method="POST", token="viewer-token")
        (denied,) = (await entries(file, 3))[2:]
        await server.fetch("/exec/default/web/other?command=id&output=1", method="POST", token="admin-token")
        received_exec, ended_exec = (await entries(file, 5))[3:]
        await server.fetch("/logs/", token="wrong")
        (unknown,) = (await entries(file, 6))[5:]
        await server.fetch("/pods", token="admin-token")
        await server.fetch("/metrics", token="admin-token")

    assert (received["stage"], ended["stage"]) == ("RequestReceived", "ResponseComplete")
    assert received["auditID"] == ended["auditID"] != denied["auditID"]
    assert received["user"]["username"] == "viewer"
    assert received["requestURI"] == LOGS + "?tailLines=1"
    assert (received["userAgent"], received["sourceIPs"]) == ("curl", ["127.0.0.1"])
    assert "responseStatus" not in received
    assert ended["responseStatus"]["code"] > 0
    assert (denied["user"]["username"], denied["responseStatus"]["code"]) == ("viewer", 403)
    assert denied["objectRef"]["subresource"] == "exec"
    assert received_exec["user"] == {"username": "admin", "uid": "1", "groups": ["ops", "system:authenticated"]}
    assert ended_exec["responseStatus"]["code"] == 404
    assert (unknown["user"], unknown["responseStatus"]["code"]) == ({}, 401)
    assert "-token" not in file.read_text()
    assert len(file.read_text().splitlines()) == 6, "other requests are not recorded"


class EndlessRoute:
    """Plugin with a stream that does not end."""

    @hookimpl
    def nodeagent_provide_routes(self) -> list[Route]:
        async def wait(_request: Any) -> Any:
            await asyncio.Event().wait()

        return [Route("GET", "/endless", wait, Exposure.SECURE, streams=True)]


async def test_stream_that_the_client_closes_is_recorded_without_a_status(pki: Pki, tmp_path: Path) -> None:
    file = tmp_path / "audit" / "access.log"
    async with serving(pki, tmp_path, plugins=[EndlessRoute()]) as server:
        _, writer = await server.connect()
        writer.write(b"GET /endless HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer viewer-token\r\n\r\n")
        await entries(file, 1)
        writer.close()
        _, ended = await entries(file, 2)

    assert (ended["stage"], ended["user"]["username"]) == ("ResponseComplete", "viewer")
    assert "responseStatus" not in ended
