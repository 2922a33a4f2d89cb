"""Client of a key management service, version 2."""

from __future__ import annotations

import uuid

from apiserver_stub.storage.encryption.key_service import Encrypted, KmsError
from apiserver_stub.storage.encryption.kms_channel import KmsChannel
from apiserver_stub.storage.encryption.proto import kms_v2_pb2 as pb

_SERVICE = "v2.KeyManagementService"
_VERSIONS = ("v2", "v2beta1")
_MAX_KEY_ID_BYTES, _MAX_SOURCE_BYTES, _MAX_ANNOTATION_BYTES = 1 << 10, 1 << 10, 32 << 10


class KmsV2Client:
    """Client of the service at *socket*; every request ends within *seconds*."""

    def __init__(self, socket: str, seconds: float) -> None:
        self._channel = KmsChannel(socket, seconds, _SERVICE)

    def key_id(self) -> str:
        response = self._channel.call("Status", pb.StatusRequest(), pb.StatusResponse)
        if response.version not in _VERSIONS:
            raise KmsError(f"got unsupported version {response.version!r}, expected v2")
        if response.healthz != "ok":
            raise KmsError(f"got unexpected healthz status: {response.healthz[:200]}")
        return _checked_id(response.key_id)

    def encrypt(self, data: bytes) -> Encrypted:
        request = pb.EncryptRequest(plaintext=data, uid=str(uuid.uuid4()))
        response = self._channel.call("Encrypt", request, pb.EncryptResponse)
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
        return self._channel.call("Decrypt", request, pb.DecryptResponse).plaintext

    def close(self) -> None:
        self._channel.close()


def _checked_id(text: str) -> str:
    if not 0 < len(text.encode()) <= _MAX_KEY_ID_BYTES:
        raise KmsError(f"key ID has {len(text.encode())} bytes, not 1 to {_MAX_KEY_ID_BYTES}")
    return text
