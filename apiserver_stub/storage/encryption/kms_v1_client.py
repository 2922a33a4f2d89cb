"""Client of a key management service, version 1."""

from __future__ import annotations

from apiserver_stub.storage.encryption.key_service import Encrypted, KmsError
from apiserver_stub.storage.encryption.kms_channel import KmsChannel
from apiserver_stub.storage.encryption.proto import kms_v1_pb2 as pb

_VERSION = "v1beta1"
_MAX_SOURCE_BYTES = (1 << 16) - 1
"""Stored values contain the length of the encrypted data key in two bytes."""


class KmsV1Client:
    """Client of the service at *socket*; every request ends within *seconds*. Keys have no ID."""

    def __init__(self, socket: str, seconds: float) -> None:
        self._channel = KmsChannel(socket, seconds, f"{_VERSION}.KeyManagementService")

    def key_id(self) -> str:
        response = self._channel.call("Version", pb.VersionRequest(version=_VERSION), pb.VersionResponse)
        if response.version != _VERSION:
            text = f"KMS provider api version {response.version} is not supported, only {_VERSION} is supported now"
            raise KmsError(text)
        return ""

    def encrypt(self, data: bytes) -> Encrypted:
        request = pb.EncryptRequest(version=_VERSION, plain=data)
        source = self._channel.call("Encrypt", request, pb.EncryptResponse).cipher
        if not 0 < len(source) <= _MAX_SOURCE_BYTES:
            raise KmsError(f"encrypted data key has {len(source)} bytes, not 1 to {_MAX_SOURCE_BYTES}")
        return Encrypted(source, "")

    def decrypt(self, encrypted: Encrypted) -> bytes:
        request = pb.DecryptRequest(version=_VERSION, cipher=encrypted.source)
        return self._channel.call("Decrypt", request, pb.DecryptResponse).plain

    def close(self) -> None:
        self._channel.close()
