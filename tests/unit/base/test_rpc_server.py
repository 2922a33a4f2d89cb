"""Tests for the gRPC server on a socket."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from pathlib import Path

import grpc.aio
import pytest
import pytest_asyncio

from nodeagent.base.plugin_rpc import MAX_SOCKET_PATH, RpcError, connect, methods_of
from nodeagent.base.pluginproto import plugin_v1_pb2
from nodeagent.base.pluginproto import registration_pb2 as registration
from nodeagent.base.rpc_server import CallRejected, serve, serve_until_cancelled
from nodeagent.testing import FakeClock
from nodeagent.testing.clock import eventually

SERVICE = registration.DESCRIPTOR.services_by_name["Registration"]
GET_INFO = methods_of(SERVICE)["GetInfo"]


@pytest_asyncio.fixture(scope="session", loop_scope="session", autouse=True)
async def grpc_thread():
    """Start gRPC's thread for the session, so that the first test that needs it does not leak it."""
    grpc.aio.init_grpc_aio()
    yield
    grpc.aio.shutdown_grpc_aio()


@pytest.fixture
def directory():
    path = Path(tempfile.mkdtemp(prefix="na-"))
    yield path
    shutil.rmtree(path)


async def get_info(_):
    return registration.PluginInfo(name="served")


async def call(socket):
    async with connect(str(socket), 5) as connection:
        return await connection.call(GET_INFO, registration.InfoRequest())


async def advance_until_served(clock, socket):
    async def advance():
        while not socket.exists():
            await clock.advance(10)
            await asyncio.sleep(0.01)

    await asyncio.wait_for(advance(), 30)


async def test_response_of_the_handler_is_sent(directory):
    async with serve(directory / "s.sock", {SERVICE: {"GetInfo": get_info}}):
        assert (await call(directory / "s.sock")).name == "served"
        assert [path.name for path in directory.iterdir()] == ["s.sock"]
    assert list(directory.iterdir()) == []


async def test_rejected_call_has_code_and_message(directory):
    async def reject(_):
        raise CallRejected("too many", "RESOURCE_EXHAUSTED")

    async with serve(directory / "s.sock", {SERVICE: {"GetInfo": reject}}):
        with pytest.raises(RpcError, match="code = ResourceExhausted desc = too many"):
            await call(directory / "s.sock")


async def test_long_path_is_served(directory):
    deep = directory / ("d" * 100)
    deep.mkdir()
    socket = deep / "kubelet.sock"
    assert len(str(socket)) > MAX_SOCKET_PATH
    async with serve(socket, {SERVICE: {"GetInfo": get_info}}):
        link = directory / "l"
        link.symlink_to(deep)
        assert (await call(link / "kubelet.sock")).name == "served"


async def test_replaced_socket_is_not_removed(directory):
    socket = directory / "s.sock"
    async with serve(socket, {SERVICE: {"GetInfo": get_info}}):
        other = directory / "other"
        other.touch()
        os.replace(other, socket)
    assert socket.exists()


async def test_removed_socket_is_created_again(directory):
    clock, socket = FakeClock(), directory / "s.sock"
    task = asyncio.create_task(serve_until_cancelled(socket, {SERVICE: {"GetInfo": get_info}}, clock))
    await eventually(socket.exists)
    socket.unlink()
    await advance_until_served(clock, socket)
    assert (await call(socket)).name == "served"
    task.cancel()
    await asyncio.wait([task])


async def test_socket_that_is_removed_as_soon_as_it_exists_is_created_again(directory, monkeypatch):
    socket, clock, removed = directory / "s.sock", FakeClock(), []
    rename = Path.replace

    def rename_and_remove(source, target):
        result = rename(source, target)
        if not removed:
            removed.append(target)
            target.unlink()
        return result

    monkeypatch.setattr(Path, "replace", rename_and_remove)
    task = asyncio.create_task(serve_until_cancelled(socket, {SERVICE: {"GetInfo": get_info}}, clock))
    await advance_until_served(clock, socket)
    assert removed == [socket] and (await call(socket)).name == "served"
    task.cancel()
    await asyncio.wait([task])


async def test_responses_of_a_generator_are_streamed(directory):
    service = plugin_v1_pb2.DESCRIPTOR.services_by_name["PodSource"]

    async def watch(request):
        yield plugin_v1_pb2.PodSet(pods=[request.node_name.encode()])
        raise CallRejected("no more", "OUT_OF_RANGE")

    async with (
        serve(directory / "s.sock", {service: {"WatchPods": watch}}),
        connect(str(directory / "s.sock"), 5) as connection,
    ):
        received = []
        with pytest.raises(RpcError, match="OutOfRange desc = no more"):
            async for each in connection.stream(
                methods_of(service)["WatchPods"], plugin_v1_pb2.WatchPodsRequest(node_name="n")
            ):
                received.append(list(each.pods))

    assert received == [[b"n"]]
