"""Tests for the calls of DRA drivers, with a fake connection."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from nodeagent.base.plugin_rpc import Method, RpcError
from nodeagent.base.pluginproto import dra_v1_pb2, dra_v1beta1_pb2
from nodeagent.contracts.claims import ClaimReference
from nodeagent.errors import ClaimError
from nodeagent_plugins.claims import grpc_driver
from nodeagent_plugins.claims.grpc_driver import V1, V1BETA1, GrpcDriver

CLAIM = ClaimReference("default", "shared", "c-1")


class Connection:
    """Connection with one response, or an error."""

    def __init__(self) -> None:
        self.response: Any = None
        self.requests: list[Any] = []

    @asynccontextmanager
    async def connect(self, _endpoint: str, _seconds: float) -> AsyncIterator[Connection]:
        yield self

    async def call(self, method: Method, request: Any) -> Any:
        self.requests.append((method.path.rpartition("/")[2], [claim.uid for claim in request.claims]))
        if isinstance(self.response, Exception):
            raise self.response
        return self.response


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Connection:
    connection = Connection()
    monkeypatch.setattr(grpc_driver, "connect", connection.connect)
    return connection


async def prepare(connection: Connection, service: str, content: Any) -> Any:
    messages: Any = dra_v1_pb2 if service == V1 else dra_v1beta1_pb2
    connection.response = messages.NodePrepareResourcesResponse(claims={"c-1": content})
    driver = GrpcDriver("gpu.example.com", "/run/dra.sock", service)
    return (await driver.prepare([CLAIM]))["c-1"]


@pytest.mark.parametrize(("share", "expected"), [({}, None), ({"share_id": "s"}, "s")])
async def test_device_may_have_a_share(connection: Connection, share: dict[str, str], expected: str | None) -> None:
    device = dra_v1_pb2.Device(pool_name="p", device_name="d", **share)

    result = await prepare(connection, V1, dra_v1_pb2.NodePrepareResourceResponse(devices=[device]))

    assert [(each.pool, each.device, each.share_id) for each in result.devices] == [("p", "d", expected)]
    assert connection.requests == [("NodePrepareResources", ["c-1"])]


async def test_device_of_the_older_service_has_no_share(connection: Connection) -> None:
    device = dra_v1beta1_pb2.Device(pool_name="p", device_name="d", cdi_device_ids=["example.com/gpu=0"])

    result = await prepare(connection, V1BETA1, dra_v1beta1_pb2.NodePrepareResourceResponse(devices=[device]))

    assert [(each.cdi_devices, each.share_id) for each in result.devices] == [(("example.com/gpu=0",), None)]


@pytest.mark.parametrize(("number", "error"), [(2, ""), (3, "the response has more than 2 devices")])
async def test_number_of_devices_is_limited(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, number: int, error: str
) -> None:
    monkeypatch.setattr(grpc_driver, "_MAX_ITEMS", 2)

    content = dra_v1_pb2.NodePrepareResourceResponse(devices=[dra_v1_pb2.Device()] * number)
    result = await prepare(connection, V1, content)

    assert (result.error, len(result.devices)) == (error, 0 if error else number)


async def test_error_of_a_claim_is_returned(connection: Connection) -> None:
    result = await prepare(connection, V1, dra_v1_pb2.NodePrepareResourceResponse(error="no such device"))

    assert (result.error, list(result.devices)) == ("no such device", [])


async def test_failed_call_names_the_method(connection: Connection) -> None:
    connection.response = RpcError("Unavailable", "connection refused")

    with pytest.raises(ClaimError, match="NodeUnprepareResources: rpc error: code = Unavailable"):
        await GrpcDriver("gpu.example.com", "/run/dra.sock", V1).unprepare([CLAIM])
