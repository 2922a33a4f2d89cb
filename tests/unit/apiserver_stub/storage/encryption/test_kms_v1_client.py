"""Tests for the client of key management services, version 1."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.storage.encryption import kms_v1_client as module
from apiserver_stub.storage.encryption.key_service import Encrypted, KmsError
from apiserver_stub.storage.encryption.kms_v1_client import KmsV1Client
from apiserver_stub.storage.encryption.proto import kms_v1_pb2 as pb


class Channel:
    """Connection to a service that encrypts to *cipher*."""

    def __init__(self, *, version: str = "v1beta1", cipher: bytes = b"cipher") -> None:
        self.version, self.cipher, self.closed = version, cipher, False

    def call(self, method: str, request: Any, kind: Any) -> Any:
        assert request.version == "v1beta1"
        match method:
            case "Version":
                return pb.VersionResponse(version=self.version)
            case "Encrypt":
                return pb.EncryptResponse(cipher=self.cipher)
        return pb.DecryptResponse(plain=request.cipher[::-1])

    def close(self) -> None:
        self.closed = True


def client(monkeypatch: pytest.MonkeyPatch, **service: Any) -> KmsV1Client:
    monkeypatch.setattr(module, "KmsChannel", lambda *_: Channel(**service))
    return KmsV1Client("/run/kms.sock", 1)


def test_service_of_another_version_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    assert client(monkeypatch).key_id() == ""
    with pytest.raises(KmsError, match="KMS provider api version v2 is not supported, only v1beta1"):
        client(monkeypatch, version="v2").key_id()


@pytest.mark.parametrize(("size", "valid"), [(0, False), (1, True), (65535, True), (65536, False)])
def test_encrypted_key_fits_its_stored_length(size: int, *, valid: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    used = client(monkeypatch, cipher=b"x" * size)

    if valid:
        assert used.encrypt(b"key") == Encrypted(b"x" * size, "")
    else:
        with pytest.raises(KmsError, match=f"encrypted data key has {size} bytes, not 1 to 65535"):
            used.encrypt(b"key")


def test_key_is_decrypted_by_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    assert client(monkeypatch).decrypt(Encrypted(b"abc", "")) == b"cba"
