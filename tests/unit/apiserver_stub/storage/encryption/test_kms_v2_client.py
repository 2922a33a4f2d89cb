"""Tests for the client of key management services, version 2."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.storage.encryption import kms_v2_client as module
from apiserver_stub.storage.encryption.key_service import Encrypted, KmsError
from apiserver_stub.storage.encryption.kms_v2_client import KmsV2Client
from apiserver_stub.storage.encryption.proto import kms_v2_pb2 as pb


class Channel:
    """Connection to a service with fixed responses."""

    def __init__(self, status: dict[str, str], encrypted: dict[str, Any]) -> None:
        self._status = {"version": "v2", "healthz": "ok", "key_id": "k", **status}
        self._encrypted = {"ciphertext": b"cipher", "key_id": "k", **encrypted}

    def call(self, method: str, request: Any, kind: Any) -> Any:
        match method:
            case "Status":
                return pb.StatusResponse(**self._status)
            case "Encrypt":
                return pb.EncryptResponse(**self._encrypted)
        assert (request.key_id, dict(request.annotations)) == ("k", {"a": b"1"})
        return pb.DecryptResponse(plaintext=request.ciphertext[::-1])


def client(monkeypatch: pytest.MonkeyPatch, status: Any = None, encrypted: Any = None) -> KmsV2Client:
    monkeypatch.setattr(module, "KmsChannel", lambda *_: Channel(status or {}, encrypted or {}))
    return KmsV2Client("/run/kms.sock", 1)


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        ({}, ""),
        ({"version": "v2beta1"}, ""),
        ({"version": "v3"}, "got unsupported version 'v3', expected v2"),
        ({"healthz": "slow"}, "got unexpected healthz status: slow"),
        ({"key_id": "k" * 1024}, ""),
        ({"key_id": "k" * 1025}, "key ID has 1025 bytes, not 1 to 1024"),
        ({"key_id": ""}, "key ID has 0 bytes, not 1 to 1024"),
    ],
)
def test_status_is_checked(status: dict[str, str], problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    used = client(monkeypatch, status)

    if problem:
        with pytest.raises(KmsError) as error:
            used.key_id()
        assert str(error.value) == problem
    else:
        assert used.key_id() == status.get("key_id", "k")


@pytest.mark.parametrize(
    ("encrypted", "problem"),
    [
        ({}, ""),
        ({"ciphertext": b"x" * 1024}, ""),
        ({"ciphertext": b"x" * 1025}, "encrypted data key has 1025 bytes, not 1 to 1024"),
        ({"ciphertext": b""}, "encrypted data key has 0 bytes, not 1 to 1024"),
        ({"annotations": {"a": b"x" * ((32 << 10) - 1)}}, ""),
        ({"annotations": {"a": b"x" * (32 << 10)}}, "annotations exceed 32768 bytes"),
        ({"key_id": ""}, "key ID has 0 bytes, not 1 to 1024"),
    ],
)
def test_encrypted_key_is_checked(encrypted: dict[str, Any], problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    used = client(monkeypatch, encrypted=encrypted)

    if problem:
        with pytest.raises(KmsError) as error:
            used.encrypt(b"key")
        assert str(error.value) == problem
    else:
        source, annotations = encrypted.get("ciphertext", b"cipher"), encrypted.get("annotations", {})
        assert used.encrypt(b"key") == Encrypted(source, "k", annotations)


def test_key_is_decrypted_by_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    assert client(monkeypatch).decrypt(Encrypted(b"abc", "k", {"a": b"1"})) == b"cba"
