"""gRPC client of an external signer of service account tokens."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, TypeVar
from urllib.parse import quote

import grpc.aio
from google.protobuf.message import DecodeError, Message

from apiserver_stub.authn.external_signer.metrics import SignerMetrics
from apiserver_stub.authn.external_signer.proto import external_jwt_pb2 as pb
from apiserver_stub.authn.token_keys import SigningError
from nodeagent.base.plugin_rpc import RpcError, rpc_error

_VERSIONS = ("v1", "v1alpha1")
"""Versions of the service, which differ only in their name; releases before 1.34 have only the second one."""
_CHANNEL: Sequence[tuple[str, Any]] = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
)
_UNIMPLEMENTED = "Unimplemented"
Response = TypeVar("Response", bound=Message)


class SignerClient:
    """Client of the signer at *address*, a path or ``@`` and the name of an abstract socket.

    A call waits for a signer that is not reachable, at most for its timeout in seconds. Must be created in the event
    loop that uses it.
    """

    def __init__(self, address: str, metrics: SignerMetrics) -> None:
        target = f"unix-abstract:{quote(address[1:])}" if address.startswith("@") else f"unix:{quote(address)}"
        self._channel = grpc.aio.insecure_channel(target, options=_CHANNEL)
        self._version, self._metrics = _VERSIONS[0], metrics

    async def metadata(self, seconds: float) -> pb.MetadataResponse:
        """Return the properties of the signer.

        :raises SigningError: the call failed.
        """
        return await self._call("Metadata", pb.MetadataRequest(), pb.MetadataResponse, seconds)

    async def fetch_keys(self, seconds: float) -> pb.FetchKeysResponse:
        """Return the keys that verify tokens.

        :raises SigningError: the call failed.
        """
        return await self._call("FetchKeys", pb.FetchKeysRequest(), pb.FetchKeysResponse, seconds)

    async def sign(self, claims: str, seconds: float) -> pb.SignJWTResponse:
        """Return header and signature for *claims* (the second segment of a token).

        :raises SigningError: the call failed.
        """
        return await self._call("Sign", pb.SignJWTRequest(claims=claims), pb.SignJWTResponse, seconds)

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close(None)

    async def _call(self, method: str, request: Message, kind: type[Response], seconds: float) -> Response:
        other = next(version for version in _VERSIONS if version != self._version)
        try:
            return await self._attempt(self._version, method, request, kind, seconds)
        except RpcError as error:
            if error.code != _UNIMPLEMENTED:
                raise SigningError(str(error)) from error
        try:
            response = await self._attempt(other, method, request, kind, seconds)
        except RpcError as error:
            raise SigningError(str(error)) from error
        self._version = other
        return response

    async def _attempt(
        self, version: str, method: str, request: Message, kind: type[Response], seconds: float
    ) -> Response:
        path = f"/{version}.ExternalJWTSigner/{method}"
        # The client of gRPC would return None for a response that it fails to decode.
        call = self._channel.unary_unary(
            path, request_serializer=type(request).SerializeToString, response_deserializer=bytes
        )
        started = time.monotonic()
        failure: RpcError | None = None
        try:
            return kind.FromString(await call(request, timeout=seconds, wait_for_ready=True))
        except DecodeError as error:
            failure = RpcError("Internal", "invalid response", local=True)
            raise failure from error
        except grpc.aio.AioRpcError as error:
            failure = rpc_error(error)
            raise failure from error
        finally:
            self._metrics.count_call(path, time.monotonic() - started, failure)
