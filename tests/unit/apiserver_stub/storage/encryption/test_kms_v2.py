"""Tests for envelope encryption with a key management service, version 2."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.storage.encryption.config import EncryptionError, parse_config
from apiserver_stub.storage.encryption.data_keys import VALID_SECONDS, DataKeys
from apiserver_stub.storage.encryption.key_service import Encrypted, KmsError
from apiserver_stub.storage.encryption.kms_v2 import KmsV2Transformer
from apiserver_stub.storage.encryption.proto import kms_v2_pb2 as pb
from apiserver_stub.storage.encryption.rules import Encryption, Rule, Rules
from apiserver_stub.storage.encryption.transformers import IDENTITY, DecryptionError, EncryptionUnavailable
from nodeagent.base.identity import Identity

LOCATION = b"/registry/secrets/default/s"


class FakeService:
    """Key service that reverses data keys."""

    def __init__(self) -> None:
        self.key, self.available, self.calls = "k1", True, []

    def key_id(self) -> str:
        self._call("status")
        return self.key

    def encrypt(self, data: bytes) -> Encrypted:
        self._call("encrypt")
        return Encrypted(data[::-1], self.key, {"note.example.com": b"n"})

    def decrypt(self, encrypted: Encrypted) -> bytes:
        self._call("decrypt")
        assert encrypted.annotations == {"note.example.com": b"n"}
        return encrypted.source[::-1]

    def close(self) -> None:
        self._call("close")

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if not self.available:
            raise KmsError("Status of the key management service: UNAVAILABLE")


class Ticks:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def service() -> FakeService:
    return FakeService()


def transformer(service: FakeService, now: Any = None) -> KmsV2Transformer:
    found = KmsV2Transformer(DataKeys("vault", service, now or Ticks()))
    assert found.data_keys.refresh() == ""
    return found


def test_values_are_encrypted_without_calls_of_the_service(service: FakeService) -> None:
    used = transformer(service)
    service.calls.clear()

    stored = [used.encrypt(b"plain", LOCATION) for _ in range(3)]

    assert len(set(stored)) == 3 and service.calls == []
    assert all(value.startswith(b"k8s:enc:kms:v2:vault:") and b"plain" not in value for value in stored)
    assert [used.decrypt(value, LOCATION) for value in stored] == [b"plain"] * 3
    parsed = pb.EncryptedObject.FromString(stored[0].removeprefix(used.label))
    assert (parsed.keyID, parsed.encryptedDEKSourceType) == ("k1", pb.HKDF_SHA256_XNONCE_AES_GCM_SEED)


def test_other_process_decrypts_with_one_call_per_data_key(service: FakeService) -> None:
    one, other = transformer(service), transformer(service)
    stored = [one.encrypt(b"plain", LOCATION) for _ in range(3)]
    service.calls.clear()

    assert [other.decrypt(value, LOCATION) for value in stored] == [b"plain"] * 3
    assert service.calls == ["decrypt"]


def test_values_belong_to_their_location(service: FakeService) -> None:
    used = transformer(service)

    with pytest.raises(DecryptionError, match="message authentication failed"):
        used.decrypt(used.encrypt(b"plain", LOCATION), b"/registry/secrets/default/other")
    with pytest.raises(DecryptionError, match="not an encrypted object"):
        used.decrypt(used.label + b"\xff", LOCATION)


def test_values_of_data_keys_of_older_servers_are_read(service: FakeService) -> None:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    key, nonce = b"k" * 32, b"n" * 12
    stored = pb.EncryptedObject(
        encryptedData=nonce + AESGCM(key).encrypt(nonce, b"plain", LOCATION),
        keyID="k0",
        encryptedDEKSource=key[::-1],
        annotations={"note.example.com": b"n"},
    )
    used = transformer(service)

    assert used.decrypt(used.label + stored.SerializeToString(), LOCATION) == b"plain"


def test_value_of_a_previous_key_is_stale(service: FakeService) -> None:
    used = transformer(service)
    sealing = Encryption(Rules((Rule((("secrets", ""),), (used,)),)))
    stored = used.encrypt(b"plain", LOCATION)
    assert sealing.decrypt("core/secrets", stored, LOCATION)[1].identity == used.identity

    service.key = "k2"
    used.data_keys.refresh()

    data, origin = sealing.decrypt("core/secrets", stored, LOCATION)
    assert data == b"plain" and origin.identity != used.identity


def test_service_that_fails_prevents_writes_after_a_while(service: FakeService) -> None:
    now = Ticks()
    used = transformer(service, now)
    sealing = Encryption(Rules((Rule((("secrets", ""),), (used,)),)))
    service.available = False

    assert "UNAVAILABLE" in used.data_keys.refresh()
    now.seconds = VALID_SECONDS
    assert sealing.problem("core/secrets") == "" and sealing.problem("core/pods") == ""
    now.seconds = VALID_SECONDS + 1
    assert "UNAVAILABLE" in sealing.problem("core/secrets") and "UNAVAILABLE" in sealing.check()
    with pytest.raises(EncryptionUnavailable):
        used.encrypt(b"x", LOCATION)
    service.available = True
    assert used.data_keys.refresh() == "" and sealing.check() == ""


@pytest.mark.parametrize(("capacity", "calls"), [(2, 0), (1, 2), (0, 2)])
def test_decrypted_keys_are_cached_up_to_the_capacity(service: FakeService, capacity: int, calls: int) -> None:
    keys = DataKeys("kms", service, capacity=capacity)
    first, second = (Encrypted(name, "k1", {"note.example.com": b"n"}) for name in (b"a", b"b"))

    assert [keys.find(item) for item in (first, second, second)] == [b"a", b"b", b"b"]
    before = service.calls.count("decrypt")
    keys.find(first)
    keys.find(second)

    assert keys.has(second) is (capacity > 0)
    assert service.calls.count("decrypt") - before == calls


def config(**kms: Any) -> bytes:
    import json

    entry = {"resources": ["secrets"], "providers": [{"kms": {"apiVersion": "v2", **kms}}, {"identity": {}}]}
    head = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration"}
    return json.dumps({**head, "resources": [entry]}).encode()


@pytest.mark.parametrize(
    ("kms", "problem"),
    [
        ({"name": "a", "endpoint": "http://x"}, 'unsupported scheme "http" for KMS provider, only unix is supported'),
        ({"name": "a:b", "endpoint": "unix:///x"}, "must not contain ':'"),
        ({"name": "a", "endpoint": "unix:///x", "cachesize": 1}, "cachesize is not supported in v2"),
        ({"name": "a", "endpoint": "unix:///x", "timeout": "0s"}, "timeout must be a positive value"),
        ({"name": "a", "endpoint": "unix:///x", "apiVersion": "v1"}, "KMSv1 is deprecated"),
        ({"endpoint": "unix:///x"}, "name is a mandatory field"),
    ],
)
def test_invalid_services_are_rejected(kms: dict[str, Any], problem: str) -> None:
    with pytest.raises(EncryptionError, match=problem):
        parse_config(config(**kms), Identity())


def test_only_values_of_unknown_data_keys_wait_for_the_service(service: FakeService) -> None:
    one, other = transformer(service), transformer(service)
    sealing = Encryption(Rules((Rule((("secrets", ""),), (other, IDENTITY)),)))
    stored = one.encrypt(b"plain", LOCATION)
    before = [sealing.waits("core/secrets", value) for value in (stored, b"plain", other.label + b"\xff")]
    other.decrypt(stored, LOCATION)

    assert (before, sealing.waits("core/secrets", stored)) == ([True, False, False], False)
    assert not sealing.waits("core/pods", stored)
