"""Tests for envelope encryption with a key management service, version 1."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from apiserver_stub.storage.encryption.config import EncryptionError, parse_config
from apiserver_stub.storage.encryption.data_keys import VALID_SECONDS, DataKeys
from apiserver_stub.storage.encryption.key_service import Encrypted, KmsError
from apiserver_stub.storage.encryption.kms_v1 import KmsV1Transformer
from apiserver_stub.storage.encryption.rules import Encryption
from apiserver_stub.storage.encryption.transformers import DecryptionError, EncryptionUnavailable
from nodeagent.base.identity import Identity

LOCATION = b"/registry/secrets/default/s"
KEY = bytes(range(32))


class FakeService:
    """Key service that reverses data keys."""

    def __init__(self) -> None:
        self.available, self.calls = True, []

    def key_id(self) -> str:
        self._call("version")
        return ""

    def encrypt(self, data: bytes) -> Encrypted:
        self._call("encrypt")
        return Encrypted(data[::-1], "")

    def decrypt(self, encrypted: Encrypted) -> bytes:
        self._call("decrypt")
        return encrypted.source[::-1]

    def close(self) -> None:
        self._call("close")

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if not self.available:
            raise KmsError("Encrypt of the key management service: UNAVAILABLE")


class Ticks:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def service() -> FakeService:
    return FakeService()


def transformer(service: FakeService, now: Any = None, **options: Any) -> KmsV1Transformer:
    found = KmsV1Transformer(DataKeys("vault", service, now or Ticks(), always_new=True, **options))
    assert found.data_keys.refresh() == ""
    return found


def test_stored_value_contains_the_encrypted_data_key(service: FakeService) -> None:
    stored = transformer(service).encrypt(b"plain", LOCATION)

    prefix, body = stored[:21], stored[21:]
    assert prefix == b"k8s:enc:kms:v1:vault:" and body[:2] == b"\x00\x20"
    key, nonce, text = body[2:34][::-1], body[34:46], body[46:]
    assert AESGCM(key).decrypt(nonce, text, LOCATION) == b"plain"


def test_values_of_kube_apiserver_are_read(service: FakeService) -> None:
    head, nonce = b"k8s:enc:kms:v1:vault:\x00\x20" + KEY[::-1], b"n" * 12
    start, padded = b"i" * 16, b"plain" + bytes([11]) * 11
    cipher = Cipher(algorithms.AES(KEY), modes.CBC(start)).encryptor()
    used = transformer(service)

    assert used.decrypt(head + nonce + AESGCM(KEY).encrypt(nonce, b"plain", LOCATION), LOCATION) == b"plain"
    assert used.decrypt(head + start + cipher.update(padded) + cipher.finalize(), LOCATION) == b"plain"


@pytest.mark.parametrize("body", [b"", b"\x00", b"\x00\x00", b"\x00\x20short"])
def test_damaged_value_is_reported(service: FakeService, body: bytes) -> None:
    with pytest.raises(DecryptionError, match="invalid data encountered by envelope transformer"):
        transformer(service).decrypt(b"k8s:enc:kms:v1:vault:" + body, LOCATION)


def test_value_may_be_empty_after_its_data_key(service: FakeService) -> None:
    used = transformer(service)
    key = b"k8s:enc:kms:v1:vault:\x00\x20" + KEY[::-1]

    with pytest.raises(DecryptionError, match="multiple of the block size"):
        used.decrypt(key, LOCATION)
    with pytest.raises(DecryptionError, match="read uint16 length prefixed data"):
        used.decrypt(key[:-1], LOCATION)


def test_each_status_renews_the_data_key(service: FakeService) -> None:
    used = transformer(service)
    before = used.encrypt(b"plain", LOCATION)
    used.data_keys.refresh()
    after = used.encrypt(b"plain", LOCATION)
    service.calls.clear()

    assert before[23:55] != after[23:55]
    assert used.decrypt(before, LOCATION) == used.decrypt(after, LOCATION) == b"plain"
    assert service.calls == []


@pytest.mark.parametrize(("capacity", "calls"), [(1000, 1), (-1, 3)])
def test_size_of_the_cache_limits_calls(service: FakeService, capacity: int, calls: int) -> None:
    stored = transformer(service).encrypt(b"plain", LOCATION)
    reader = transformer(service, capacity=capacity)
    service.calls.clear()

    assert [reader.decrypt(stored, LOCATION) for _ in range(3)] == [b"plain"] * 3
    assert service.calls == ["decrypt"] * calls


def test_service_that_fails_prevents_writes_after_a_while(service: FakeService) -> None:
    now = Ticks()
    used = transformer(service, now)
    service.available = False
    assert "UNAVAILABLE" in used.data_keys.refresh() and not used.problem

    now.seconds = VALID_SECONDS + 1

    with pytest.raises(EncryptionUnavailable, match=r"key management service vault: .*UNAVAILABLE"):
        used.encrypt(b"x", LOCATION)


def config(**kms: Any) -> bytes:
    provider = {"kms": {"name": "vault", "endpoint": "unix:///x", **kms}}
    entry = {"resources": ["secrets"], "providers": [provider]}
    head = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration"}
    return json.dumps({**head, "resources": [entry]}).encode()


@pytest.mark.parametrize("version", [{}, {"apiVersion": "v1"}])
def test_version_1_is_the_default_and_requires_its_gate(version: dict[str, Any]) -> None:
    encryption = Encryption(parse_config(config(cachesize=5, **version), Identity(), allows_kms_v1=True))
    assert encryption.writer("core/secrets").label == b"k8s:enc:kms:v1:vault:"
    encryption.close()

    with pytest.raises(EncryptionError, match=r"apiVersion: Forbidden: .* Set --feature-gates=KMSv1=true to use the"):
        parse_config(config(**version), Identity())


@pytest.mark.parametrize(
    ("kms", "problem"),
    [
        ({"cachesize": 0}, "cachesize should be a positive value, or negative to disable"),
        ({"cachesize": "5"}, "cachesize should be a positive value"),
        ({"apiVersion": "v3"}, "unsupported apiVersion v3 for KMS provider, only v1 and v2 are supported"),
    ],
)
def test_invalid_services_are_rejected(kms: dict[str, Any], problem: str) -> None:
    with pytest.raises(EncryptionError, match=problem):
        parse_config(config(**kms), Identity(), allows_kms_v1=True)
