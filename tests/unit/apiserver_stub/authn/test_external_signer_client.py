"""Tests for the client of an external signer, with a gRPC server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio
import pytest

from apiserver_stub.authn.external_signer.client import SignerClient
from apiserver_stub.authn.external_signer.metrics import SignerMetrics
from apiserver_stub.authn.external_signer.proto import external_jwt_pb2 as pb
from apiserver_stub.authn.token_keys import SigningError

pytestmark = pytest.mark.usefixtures("grpc_thread")

_SECONDS = 30.0
Behavior = Callable[[bytes, grpc.aio.ServicerContext], Awaitable[bytes]]


@asynccontextmanager
async def _client(socket: Path, version: str, behavior: Behavior) -> AsyncIterator[SignerClient]:
    """Provide the client of a signer that responds to ``FetchKeys`` with *behavior*."""
    handlers = {"FetchKeys": grpc.unary_unary_rpc_method_handler(behavior)}
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(f"{version}.ExternalJWTSigner", handlers),))
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    client = SignerClient(str(socket), SignerMetrics())
    try:
        yield client
    finally:
        await client.close()
        await server.stop(None)


@pytest.mark.parametrize("version", ["v1", "v1alpha1"])
async def test_each_version_of_the_service_is_called(tmp_path: Path, version: str) -> None:
    async def fetch_keys(_request: bytes, _context: grpc.aio.ServicerContext) -> bytes:
        return pb.FetchKeysResponse(refresh_hint_seconds=5).SerializeToString()

    async with _client(tmp_path / "signer.sock", version, fetch_keys) as client:
        assert [(await client.fetch_keys(_SECONDS)).refresh_hint_seconds for _ in range(2)] == [5, 5]


async def test_invalid_response_is_an_error(tmp_path: Path) -> None:
    async def fetch_keys(_request: bytes, _context: grpc.aio.ServicerContext) -> bytes:
        return b"\xff"

    async with _client(tmp_path / "signer.sock", "v1", fetch_keys) as client:
        with pytest.raises(SigningError, match=r"^rpc error: code = Internal desc = invalid response$"):
            await client.fetch_keys(_SECONDS)


async def test_errors_have_the_text_of_go_clients(tmp_path: Path) -> None:
    async def fetch_keys(_request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        await context.abort(grpc.StatusCode.CANCELLED, "the signer stops")
        return b""

    async with _client(tmp_path / "signer.sock", "v1", fetch_keys) as client:
        with pytest.raises(SigningError, match=r"^rpc error: code = Canceled desc = the signer stops$"):
            await client.fetch_keys(_SECONDS)
