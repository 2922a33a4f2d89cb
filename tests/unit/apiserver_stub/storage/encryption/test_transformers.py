"""Tests for encryption transformers: upstream's formats, and rejection of other keys."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from apiserver_stub.storage.encryption.transformers import (
    IDENTITY,
    KINDS,
    AesCbc,
    AesGcm,
    DecryptionError,
    Secretbox,
    decrypt_cbc,
)
from nodeagent.base.secret import Secret

LOCATION = b"/registry/secrets/default/s"
KEY, OTHER = Secret(b"k" * 32), Secret(b"o" * 32)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 5000])
def test_value_is_decrypted_only_with_its_key(kind: str, size: int) -> None:
    make, _ = KINDS[kind]
    data, transformer = b"x" * size, make("key1", KEY)

    stored = transformer.encrypt(data, LOCATION)

    assert stored.startswith(f"k8s:enc:{kind}:v1:key1:".encode())
    assert transformer.encrypt(data, LOCATION) != stored  # ciphertexts are unique
    assert transformer.decrypt(stored, LOCATION) == data
    if kind != "aescbc":  # which detects a wrong key only by its padding
        with pytest.raises(DecryptionError):
            make("key1", OTHER).decrypt(stored, LOCATION)
        with pytest.raises(DecryptionError):
            transformer.decrypt(stored[:-1] + bytes([stored[-1] ^ 1]), LOCATION)


def test_aesgcm_value_is_bound_to_its_storage_key() -> None:
    transformer = AesGcm("k", KEY)

    with pytest.raises(DecryptionError):
        transformer.decrypt(transformer.encrypt(b"x", LOCATION), b"/registry/secrets/default/other")


@pytest.mark.parametrize("size", [0, 16, 33])
def test_truncated_value_is_rejected(size: int) -> None:
    transformer = AesCbc("k", KEY)

    with pytest.raises(DecryptionError):
        transformer.decrypt(transformer.encrypt(b"x" * 40, LOCATION)[: len(transformer.label) + size], LOCATION)


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (b"\x01", b"x" * 15),
        (b"\x02\x02", b"x" * 14),
        (b"\x10" * 16, b""),
        (b"\x00", None),
        (b"\x01\x02", None),
        (b"\x11" * 16, None),
    ],
)
def test_padding_is_checked(end: bytes, expected: bytes | None) -> None:
    start = b"i" * 16
    cipher = Cipher(algorithms.AES(KEY.reveal()), modes.CBC(start)).encryptor()
    stored = start + cipher.update(b"x" * (16 - len(end)) + end) + cipher.finalize()

    if expected is not None:
        assert decrypt_cbc(KEY.reveal(), stored) == expected
    else:
        with pytest.raises(DecryptionError, match="invalid padding on input"):
            decrypt_cbc(KEY.reveal(), stored)


@pytest.mark.parametrize("make", [AesGcm, Secretbox])
def test_empty_value_is_rejected(make: type[AesGcm] | type[Secretbox]) -> None:
    transformer = make("k", KEY)

    with pytest.raises(DecryptionError):
        transformer.decrypt(transformer.label, LOCATION)


def test_identity_rejects_encrypted_values() -> None:
    assert IDENTITY.decrypt(b"{}", LOCATION) == b"{}"
    with pytest.raises(DecryptionError, match="identity transformer tried to read encrypted data"):
        IDENTITY.decrypt(b"k8s:enc:aescbc:v1:k:xx", LOCATION)


def test_keys_of_one_name_differ_in_identity() -> None:
    assert AesGcm("k", KEY).label == AesGcm("k", OTHER).label
    assert AesGcm("k", KEY).identity != AesGcm("k", OTHER).identity
