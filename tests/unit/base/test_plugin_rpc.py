"""Tests for the gRPC client of node plugins: error texts, limits, and plugins that violate the protocol."""

from __future__ import annotations

import asyncio
import contextlib
import math
import shutil
import tempfile
from pathlib import Path

import grpc.aio
import pytest

from nodeagent.base.plugin_rpc import MAX_MESSAGE_BYTES, RpcError, connect, is_socket, methods_of
from nodeagent.base.pluginproto import plugin_v1_pb2
from nodeagent.base.pluginproto import registration_pb2 as registration
from nodeagent.base.rpc_server import serve

pytestmark = pytest.mark.usefixtures("grpc_thread")

GET_INFO = methods_of(registration.DESCRIPTOR.services_by_name["Registration"])["GetInfo"]


@pytest.fixture
def socket():
    """Path of a socket, short enough for the kernel."""
    path = Path(tempfile.mkdtemp(prefix="na-"))
    yield path / "a b%20.sock"
    shutil.rmtree(path)


@contextlib.asynccontextmanager
async def serving(socket, behavior, *, stream=False):
    make = grpc.unary_stream_rpc_method_handler if stream else grpc.unary_unary_rpc_method_handler
    handler = make(behavior, request_deserializer=bytes, response_serializer=bytes)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("pluginregistration.Registration", {"GetInfo": handler}),)
    )
    server.add_insecure_port(f"unix://{str(socket).replace('%', '%25').replace(' ', '%20')}")
    await server.start()
    try:
        yield
    finally:
        await server.stop(None)


async def failure(socket, seconds=5.0):
    """Return the error of a call."""
    with pytest.raises(RpcError) as raised:
        async with connect(str(socket), seconds) as connection:
            await connection.call(GET_INFO, registration.InfoRequest())
    return raised.value


async def test_response_is_returned(socket):
    async def respond(_request, _context):
        return registration.PluginInfo(name="a").SerializeToString()

    async with serving(socket, respond), connect(str(socket), 5) as connection:
        await connection.wait_ready(5)
        assert (await connection.call(GET_INFO, registration.InfoRequest())).name == "a"
    assert is_socket(str(socket)) is False  # The server has removed it.


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (grpc.StatusCode.CANCELLED, "Canceled"),
        (grpc.StatusCode.FAILED_PRECONDITION, "FailedPrecondition"),
        (grpc.StatusCode.NOT_FOUND, "NotFound"),
        (grpc.StatusCode.DATA_LOSS, "DataLoss"),
        (grpc.StatusCode.UNKNOWN, "Unknown"),
    ],
)
async def test_error_has_the_text_of_go_clients(socket, code, name):
    async def abort(_request, context):
        await context.abort(code, "details")

    async with serving(socket, abort):
        error = await failure(socket)

    assert (error.code, str(error)) == (name, f"rpc error: code = {name} desc = details")


async def test_missing_socket_fails_immediately(socket):
    assert (await failure(socket)).code == "Unavailable"
    async with connect(str(socket), 5) as connection:
        with pytest.raises(RpcError, match="code = Unavailable"):
            await connection.wait_ready(5)


async def test_path_too_long_for_the_kernel_is_reported(tmp_path):
    error = await failure(tmp_path / ("x" * 120))
    assert "path of the socket is longer than 107 bytes" in str(error)


async def test_longest_path_of_a_socket_is_107_bytes():
    for length, longer in [(107, False), (108, True)]:
        error = await failure(Path("/" + "x" * (length - 1)))
        assert ("is longer than" in str(error)) == longer


async def test_oversized_response_is_rejected(socket):
    async def respond(_request, _context):
        return b"x" * (MAX_MESSAGE_BYTES + 1)

    async with serving(socket, respond):
        assert (await failure(socket)).code == "ResourceExhausted"


async def test_endless_response_ends_at_the_deadline(socket):
    async def respond(_request, _context):
        while True:
            yield b""

    async with serving(socket, respond, stream=True):
        error = await failure(socket, 0.3)

    assert error.code in {"DeadlineExceeded", "Unimplemented", "Internal"}


async def test_invalid_response_may_have_been_executed(socket):
    async def respond(_request, _context):
        return b"\xff\xff"

    async with serving(socket, respond):
        error = await failure(socket)

    assert (error.code, error.local, error.details) == ("Internal", True, "invalid response")


async def test_socket_that_sends_endless_garbage_is_unavailable(socket):
    async def flood(_reader, writer):
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(b"\xff" * 65536)
                await writer.drain()

    server = await asyncio.start_unix_server(flood, str(socket))
    try:
        assert (await failure(socket, 5)).code == "Unavailable"
    finally:
        server.close()


async def test_plugin_that_disconnects_is_unavailable(socket):

    async def hang_up(_reader, writer):
        writer.close()

    server = await asyncio.start_unix_server(hang_up, str(socket))
    try:
        assert (await failure(socket)).code == "Unavailable"
    finally:
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize("streams", [False, True])
async def test_call_fails_if_another_task_closes_the_connection(socket, streams):
    service = plugin_v1_pb2.DESCRIPTOR.services_by_name["PodSource" if streams else "Admission"]
    called = asyncio.Event()

    async def hang(_request):
        called.set()
        await asyncio.Event().wait()

    async def hang_stream(_request):
        called.set()
        await asyncio.Event().wait()
        yield None

    async def call(connection):
        (method,) = methods_of(service).values()
        if not streams:
            return await connection.call(method, plugin_v1_pb2.AdmitPodRequest())
        return [each async for each in connection.stream(method, plugin_v1_pb2.WatchPodsRequest())]

    handler = {"WatchPods": hang_stream} if streams else {"AdmitPod": hang}
    async with serve(socket, {service: handler}):
        async with connect(str(socket), math.inf) as connection:
            task = asyncio.create_task(call(connection))
            await called.wait()
        with pytest.raises(RpcError, match="Unavailable desc = connection closed"):
            await task
