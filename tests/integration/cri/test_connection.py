"""Tests for the CRI connection with a fake runtime: streams, message sizes, reconnection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from nodeagent.base.aio import SystemClock
from nodeagent.base.criproto import api_pb2 as cri
from nodeagent.contracts.runtime import RuntimeEventType
from nodeagent.errors import RuntimeFailure, RuntimeUnavailable
from nodeagent_plugins.cri.client import CriRuntime
from nodeagent_plugins.cri.connection import MAX_MESSAGE_BYTES, Connection
from nodeagent_plugins.cri.image_service import CriImageService

pytestmark = pytest.mark.integration

OVERHEAD_BYTES = 64


class Broken:
    """Response that is not a message."""

    def SerializeToString(self) -> bytes:
        return b"\xff"


class SmallRuntime:
    """Runtime with a few calls; ``images`` is the length of the image's name, ``events`` the content of the stream."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.name_bytes = 10
        self.events: list[cri.ContainerEventResponse] = []
        self.stream_stays_open = self.broken = False
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        self._server = grpc.aio.server()
        unary, stream = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
        runtime = {
            "Version": unary(self._version, cri.VersionRequest.FromString, _bytes),
            "GetContainerEvents": stream(self._get_events, cri.GetEventsRequest.FromString, _bytes),
        }
        images = {"ListImages": unary(self._list_images, cri.ListImagesRequest.FromString, _bytes)}
        for service, methods in (("RuntimeService", runtime), ("ImageService", images)):
            handler = grpc.method_handlers_generic_handler(f"runtime.v1.{service}", methods)
            self._server.add_generic_rpc_handlers((handler,))
        self._server.add_insecure_port(f"unix://{self.socket}")
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(None)
            self._server = None

    async def _version(self, request: Any, context: Any) -> Any:
        if self.broken:
            return Broken()
        return cri.VersionResponse(runtime_name="small", runtime_version=request.version)

    async def _list_images(self, request: Any, context: Any) -> cri.ListImagesResponse:
        return cri.ListImagesResponse(images=[cri.Image(id="x" * self.name_bytes)])

    async def _get_events(self, request: Any, context: Any) -> AsyncIterator[Any]:
        if self.broken:
            yield Broken()
        for event in self.events:
            yield event
        while self.stream_stays_open:
            await asyncio.sleep(0.05)


def _bytes(message: Any) -> bytes:
    return message.SerializeToString()


@pytest.fixture
async def small(tmp_path) -> AsyncIterator[SmallRuntime]:
    runtime = SmallRuntime(tmp_path / "small.sock")
    await runtime.start()
    yield runtime
    await runtime.stop()


@pytest.fixture
async def client(small) -> AsyncIterator[CriRuntime]:
    client = CriRuntime(Connection(f"unix://{small.socket}", timeout_seconds=20), SystemClock())
    yield client
    await client.close()


async def test_client_sends_its_api_version(client):
    assert (await client.version()).version == "0.1.0"


async def test_events_arrive_while_the_stream_is_open(small, client):
    small.stream_stays_open = True
    small.events = [
        cri.ContainerEventResponse(container_id="c", container_event_type=cri.CONTAINER_STARTED_EVENT),
        cri.ContainerEventResponse(container_id="c", container_event_type=cri.CONTAINER_STOPPED_EVENT),
    ]
    stream = client.events()

    seen = [(await anext(stream)).type, (await anext(stream)).type]
    await stream.aclose()

    assert seen == [RuntimeEventType.STARTED, RuntimeEventType.STOPPED]


async def test_broken_stream_means_the_runtime_is_unavailable(small, client):
    small.stream_stays_open = True
    small.events = [cri.ContainerEventResponse(container_id="c")]
    stream = client.events()
    await anext(stream)

    await small.stop()

    with pytest.raises(RuntimeUnavailable, match="watch the runtime's events"):
        async with asyncio.timeout(10):
            await anext(stream)


async def test_undecodable_responses_are_failures(small, client):
    small.broken = True

    with pytest.raises(RuntimeFailure, match="get the runtime version: the runtime returned an invalid response"):
        await client.version()
    with pytest.raises(RuntimeFailure, match="watch the runtime's events: the runtime returned an invalid response"):
        await anext(client.events())


async def test_response_over_16_mib_is_rejected(small, client):
    images = CriImageService(client.connection)
    small.name_bytes = MAX_MESSAGE_BYTES - OVERHEAD_BYTES
    (image,) = await images.list_images()
    assert len(image.id) == small.name_bytes

    small.name_bytes = MAX_MESSAGE_BYTES
    with pytest.raises(RuntimeFailure, match="list images"):
        await images.list_images()


async def test_client_reconnects_to_a_restarted_runtime(small, client):
    await client.version()
    await small.stop()
    with pytest.raises(RuntimeUnavailable):
        await client.version()

    await small.start()

    async with asyncio.timeout(10):
        while True:
            try:
                assert (await client.version()).name == "small"
                break
            except RuntimeUnavailable:
                await asyncio.sleep(0.05)


async def test_cancelled_call_leaves_the_connection_usable(small, client):
    small.stream_stays_open = True
    waiting = asyncio.create_task(anext(client.events()))
    await asyncio.sleep(0.2)

    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    assert (await client.version()).name == "small"


async def test_closed_client_can_be_used_again(client):
    await client.version()
    await client.close()

    assert (await client.version()).name == "small"
