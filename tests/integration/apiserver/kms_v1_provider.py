"""Key management service, version 1, as a process: ``python -m … SOCKET``. Each rotation adds a key."""

from __future__ import annotations

import os
import sys
from typing import Any

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from apiserver_stub.storage.encryption.proto import kms_v1_pb2 as pb

from .processes import grpc_service, run_commands


class KmsV1Provider:
    """Provider that encrypts with its last key and decrypts with the key whose number precedes the text."""

    def __init__(self) -> None:
        self._keys: list[AESGCM] = []
        self.rotate()

    def rotate(self) -> None:
        self._keys.append(AESGCM(AESGCM.generate_key(256)))

    def version(self, request: pb.VersionRequest, context: Any) -> pb.VersionResponse:
        return pb.VersionResponse(version="v1beta1", runtime_name="example", runtime_version="0.1.0")

    def encrypt(self, request: pb.EncryptRequest, context: Any) -> pb.EncryptResponse:
        nonce, number = os.urandom(12), len(self._keys) - 1
        return pb.EncryptResponse(
            cipher=bytes([number]) + nonce + self._keys[number].encrypt(nonce, request.plain, None)
        )

    def decrypt(self, request: pb.DecryptRequest, context: Any) -> pb.DecryptResponse:
        number, nonce, text = request.cipher[0], request.cipher[1:13], request.cipher[13:]
        return pb.DecryptResponse(plain=self._keys[number].decrypt(nonce, text, None))


def main(socket: str) -> None:
    provider = KmsV1Provider()
    methods = {
        "Version": (provider.version, pb.VersionRequest),
        "Encrypt": (provider.encrypt, pb.EncryptRequest),
        "Decrypt": (provider.decrypt, pb.DecryptRequest),
    }
    with grpc_service(f"unix:{socket}", "v1beta1.KeyManagementService", methods):
        run_commands({"rotate": provider.rotate})


if __name__ == "__main__":
    main(sys.argv[1])
