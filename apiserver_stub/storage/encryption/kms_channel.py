"""Connection to a key management service on a Unix socket. Blocks; used by the threads of the store."""

from __future__ import annotations

from typing import TypeVar

import grpc
from google.protobuf.message import Message

from apiserver_stub.storage.encryption.key_service import KmsError

Response = TypeVar("Response", bound=Message)


class KmsChannel:
    """Connection to the gRPC service *service* at *socket*; every call ends within *seconds*."""

    def __init__(self, socket: str, seconds: float, service: str) -> None:
        self._channel = grpc.insecure_channel(f"unix://{socket}", [("grpc.enable_http_proxy", 0)])
        self._seconds, self._service = seconds, service

    def call(self, method: str, request: Message, kind: type[Response]) -> Response:
        """Return the response of *method*.

        :raises KmsError: the call failed.
        """
        call = self._channel.unary_unary(
            f"/{self._service}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=kind.FromString,
        )
        try:
            response: Response = call(request, timeout=self._seconds)
        except grpc.RpcError as error:
            code, details = getattr(error, "code", None), getattr(error, "details", None)
            text = f"{code().name}: {(details() or '')[:200]}" if code is not None and details is not None else "failed"
            raise KmsError(f"{method} of the key management service: {text}") from error
        return response

    def close(self) -> None:
        self._channel.close()
