"""Key management service for tests, and an example of a provider: it encrypts data keys with AES-GCM."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from apiserver_stub.storage.encryption.proto import kms_v2_pb2 as pb


class KmsProvider:
    """Service on the Unix socket *path*; :meth:`rotate` changes its key."""

    def __init__(self, path: Path) -> None:
        self._keys = {"key-1": AESGCM(AESGCM.generate_key(256))}
        self._current = "key-1"
        self._threads = ThreadPoolExecutor(2)
        self.decrypting, self.may_decrypt = threading.Event(), threading.Event()
        """Set while or after a data key is decrypted; set, unless decryption must wait."""
        self.may_decrypt.set()
        self._server = grpc.server(self._threads)
        methods = {
            "Status": (self._status, pb.StatusRequest),
            "Encrypt": (self._encrypt, pb.EncryptRequest),
            "Decrypt": (self._decrypt, pb.DecryptRequest),
        }
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(
                run,
                request_deserializer=kind.FromString,
                response_serializer=lambda message: message.SerializeToString(),
            )
            for name, (run, kind) in methods.items()
        }
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("v2.KeyManagementService", handlers),)
        )
        self._server.add_insecure_port(f"unix://{path}")
        self._server.start()

    def rotate(self) -> None:
        """Use a new key for new data keys."""
        self._current = f"key-{len(self._keys) + 1}"
        self._keys[self._current] = AESGCM(AESGCM.generate_key(256))

    def close(self) -> None:
        self.may_decrypt.set()
        self._server.stop(None).wait()
        self._threads.shutdown()

    def _status(self, request: pb.StatusRequest, context: Any) -> pb.StatusResponse:
        return pb.StatusResponse(version="v2", healthz="ok", key_id=self._current)

    def _encrypt(self, request: pb.EncryptRequest, context: Any) -> pb.EncryptResponse:
        nonce = os.urandom(12)
        text = nonce + self._keys[self._current].encrypt(nonce, request.plaintext, None)
        return pb.EncryptResponse(ciphertext=text, key_id=self._current)

    def _decrypt(self, request: pb.DecryptRequest, context: Any) -> pb.DecryptResponse:
        self.decrypting.set()
        self.may_decrypt.wait()
        nonce, text = request.ciphertext[:12], request.ciphertext[12:]
        return pb.DecryptResponse(plaintext=self._keys[request.key_id].decrypt(nonce, text, None))
