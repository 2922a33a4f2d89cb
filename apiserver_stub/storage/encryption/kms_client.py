"""Client of a key management service, version 2, on a Unix socket. Blocks; used by the threads of the store."""

from __future__ import annotations

import uuid
from typing import TypeVar

import grpc
from google.protobuf.message import Message

from apiserver_stub.storage.encryption.key_service import Encrypted, KmsError
from apiserver_stub.storage.encryption.proto import kms_v2_pb2 as pb

_SERVICE = "/v2.KeyManagementService"
_VERSIONS = ("v2", "v2beta1")
_MAX_KEY_ID_BYTES, _MAX_SOURCE_BYTES, _MAX_ANNOTATION_BYTES = 1 << 10, 1 << 10, 32 << 10

Response = TypeVar("Response", bound=Message)


class KmsClient:
    """Client of the service at *socket*; every request ends within *seconds*."""

    def __init__(self, socket: str, seconds: float) -> None:
        self._channel = grpc.insecure_channel(f"unix://{socket}", [("grpc.enable_http_proxy", 0)])
        self._seconds = seconds

    def key_id(self) -> str:
        response = self._call("Status", pb.StatusRequest(), pb.StatusResponse)
        if response.version not in _VERSIONS:
            raise KmsError(f"got unsupported version {response.version!r}, expected v2")
        if response.healthz != "ok":
            raise KmsError(f"got unexpected healthz status: {response.healthz[:200]}")
        return _checked_id(response.key_id)

    def encrypt(self, data: bytes) -> Encrypted:
        request = pb.EncryptRequest(plaintext=data, uid=str(uuid.uuid4()))
        response = self._call("Encrypt", request, pb.EncryptResponse)
        if not 0 < len(response.ciphertext) <= _MAX_SOURCE_BYTES:
            raise KmsError(f"encrypted data key has {len(response.ciphertext)} bytes, not 1 to {_MAX_SOURCE_BYTES}")
        annotations = dict(response.annotations)
        if sum(len(name) + len(value) for name, value in annotations.items()) > _MAX_ANNOTATION_BYTES:
            raise KmsError(f"annotations exceed {_MAX_ANNOTATION_BYTES} bytes")
        return Encrypted(response.ciphertext, _checked_id(response.key_id), annotations)

    def decrypt(self, encrypted: Encrypted) -> bytes:
        request = pb.DecryptRequest(
            ciphertext=encrypted.source,
            uid=str(uuid.uuid4()),
            key_id=encrypted.key_id,
            annotations=encrypted.annotations,
        )
        return self._call("Decrypt", request, pb.DecryptResponse).plaintext

    def close(self) -> None:
        self._channel.close()

    def _call(self, method: str, request: Message, kind: type[Response]) -> Response:
        call = self._channel.unary_unary(
            f"{_SERVICE}/{method}",
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


def _checked_id(text: str) -> str:
    if not 0 < len(text.encode()) <= _MAX_KEY_ID_BYTES:
        raise KmsError(f"key ID has {len(text.encode())} bytes, not 1 to {_MAX_KEY_ID_BYTES}")
    return text
