"""Tests for the gRPC server of the embedded runtime: cancelled calls, missing calls and change notifications."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
import pytest_asyncio

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent.base.criproto import changes
from nodeagent.testing import eventually
from nodeagent_plugins.embedded_runtime.errors import NotFound
from nodeagent_plugins.embedded_runtime.server import _handler, make_server, serve_changes


@pytest_asyncio.fixture(scope="session", loop_scope="session", autouse=True)
async def grpc_thread() -> AsyncIterator[None]:
    """Start gRPC's thread for the session, so that the first test that needs it does not leak it."""
    grpc.aio.init_grpc_aio()
    yield
    grpc.aio.shutdown_grpc_aio()


class RuntimeService:
    """Two calls that wait for a release, and one that fails."""

    def __init__(self) -> None:
        self.started, self.release = asyncio.Event(), asyncio.Event()
        self.ended: list[str] = []
        self.error: Exception | None = None

    async def _wait(self, name: str) -> None:
        self.started.set()
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.ended.append(f"{name} cancelled")
            raise
        self.ended.append(f"{name} completed")
        if self.error is not None:
            raise self.error

    async def exec_sync(self, _request: Any) -> Any:
        await self._wait("exec")
        return cri.ExecSyncResponse()

    async def stop_container(self, _request: Any) -> Any:
        await self._wait("stop")
        return cri.StopContainerResponse()

    async def container_status(self, _request: Any) -> Any:
        assert self.error is not None
        raise self.error


class ImageService:
    """Implements no call."""


@pytest.fixture
def service() -> RuntimeService:
    return RuntimeService()


@asynccontextmanager
async def serving(service: RuntimeService, directory: Path, *sent: Any) -> AsyncIterator[grpc.aio.Channel]:
    async def events() -> AsyncGenerator[Any, None]:
        for each in sent:
            yield each

    server = make_server(directory / "s", service, ImageService())
    serve_changes(server, events)
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"unix:{directory}/s") as channel:
            yield channel
    finally:
        await server.stop(0)


def call(channel: grpc.aio.Channel, name: str) -> Any:
    return channel.unary_unary(f"/runtime.v1.RuntimeService/{name}", bytes, bytes)(b"")


async def cancelled_call(name: str, function: Any, service: RuntimeService) -> None:
    """Cancel a call to *function*, and release its work afterwards."""
    method = cri.DESCRIPTOR.services_by_name["RuntimeService"].methods_by_name[name]
    work = asyncio.create_task(_handler(method, function).unary_unary(b"", None))
    await service.started.wait()
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    service.release.set()
    await eventually(lambda: service.ended)
    await asyncio.sleep(0)  # The callback of the completed work.


@pytest.mark.parametrize(
    ("name", "function", "ended"),
    [("ExecSync", "exec_sync", ["exec cancelled"]), ("StopContainer", "stop_container", ["stop completed"])],
)
async def test_only_commands_are_cancelled_with_their_call(
    service: RuntimeService, caplog: pytest.LogCaptureFixture, name: str, function: str, ended: list[str]
) -> None:
    await cancelled_call(name, getattr(service, function), service)

    assert service.ended == ended and caplog.messages == []


async def test_failure_after_the_cancellation_is_logged(
    service: RuntimeService, caplog: pytest.LogCaptureFixture
) -> None:
    service.error = ValueError("no process")

    await cancelled_call("StopContainer", service.stop_container, service)

    assert caplog.messages == ["CRI call failed after its cancellation"]


@pytest.mark.parametrize(
    ("error", "code", "details"),
    [
        (NotFound("no such container"), grpc.StatusCode.NOT_FOUND, "no such container"),
        (ValueError("wrong"), grpc.StatusCode.INTERNAL, "ContainerStatus: ValueError: wrong"),
    ],
)
async def test_failed_call_has_the_status_of_its_error(
    service: RuntimeService, tmp_path: Path, error: Exception, code: grpc.StatusCode, details: str
) -> None:
    service.error = error
    async with serving(service, tmp_path) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(channel, "ContainerStatus")

    assert (caught.value.code(), caught.value.details()) == (code, details)


async def test_call_without_implementation_is_unimplemented(service: RuntimeService, tmp_path: Path) -> None:
    async with serving(service, tmp_path) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(channel, "ListContainers")

    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED


async def test_only_events_that_change_a_list_are_sent(service: RuntimeService, tmp_path: Path) -> None:
    kinds = (cri.CONTAINER_CREATED_EVENT, cri.CONTAINER_STARTED_EVENT, cri.CONTAINER_DELETED_EVENT)
    events = [cri.ContainerEventResponse(container_event_type=kind) for kind in kinds]
    async with serving(service, tmp_path, *events) as channel:
        stream = channel.unary_stream(changes.SUBSCRIBE, bytes, changes.Envelope.FromString)(b"")
        topics = [envelope.topic async for envelope in stream]

    assert topics == [changes.TOPICS[0], changes.TOPICS[2]]
