"""Tests for JWT signatures: kinds of keys, algorithms and key files."""

from __future__ import annotations

import base64
import contextlib
import zlib
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from hypothesis import given
from hypothesis import strategies as st

from apiserver_stub.authn import jwt
from apiserver_stub.authn.keys import KeyFileError, PublicKey, SigningKey, from_jwk, load_public_keys
from nodeagent.base.tls import generate_ca

RSA = rsa.generate_private_key(65537, 2048)
KEYS = {
    "RS256": RSA,
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "ES384": ec.generate_private_key(ec.SECP384R1()),
    "ES512": ec.generate_private_key(ec.SECP521R1()),
}


def private_pem(key: Any, form: Any = serialization.PrivateFormat.PKCS8) -> bytes:
    pem: bytes = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    return pem


def signing_key(path: Path, key: Any) -> SigningKey:
    path.write_bytes(private_pem(key))
    return SigningKey.load(path)


@pytest.mark.parametrize("algorithm", KEYS)
def test_signature_verifies_with_each_kind_of_key(tmp_path: Path, algorithm: str) -> None:
    key = signing_key(tmp_path / "key", KEYS[algorithm])
    token = jwt.parse(jwt.sign(key, {"sub": "x"}))

    token.verify([from_jwk(key.public.jwk())])  # type: ignore[list-item]
    assert token.header == {"alg": algorithm, "kid": key.public.key_id}
    assert token.claims == {"sub": "x"}
    for other, private in KEYS.items():
        if other != algorithm:
            with pytest.raises(jwt.TokenError):
                token.verify([signing_key(tmp_path / other, private).public])
    with pytest.raises(jwt.TokenError, match="unexpected algorithm"):
        token.verify([key.public], ["RS512"])


def test_rsa_key_verifies_all_rsa_algorithms_unless_restricted() -> None:
    public = PublicKey(RSA.public_key())
    signature = RSA.sign(b"x", padding.PSS(padding.MGF1(hashes.SHA384()), 48), hashes.SHA384())

    assert public.verifies("PS384", b"x", signature)
    assert not public.verifies("PS256", b"x", signature)
    assert not public.verifies("none", b"x", b"")
    assert not public.verifies("HS256", b"x", signature)
    assert not from_jwk({**public.jwk(), "alg": "RS256"}).verifies("PS384", b"x", signature)  # type: ignore[union-attr]
    assert from_jwk({**public.jwk(), "use": "enc"}) is None
    assert from_jwk({"kty": "oct", "k": "AAAA"}) is None


@pytest.mark.parametrize("change", [{"kid": 1}, {"alg": ["RS256"]}, {"kty": {}}, {"kty": "oct"}, {"d": "AQAB"}])
def test_key_of_a_set_with_an_invalid_field_is_ignored(change: dict[str, Any]) -> None:
    jwk = PublicKey(RSA.public_key()).jwk()

    assert from_jwk(jwk) is not None
    assert from_jwk({**jwk, **change}) is None


def test_modified_token_does_not_verify(tmp_path: Path) -> None:
    key = SigningKey.load_or_create(tmp_path / "key")
    assert SigningKey.load_or_create(tmp_path / "key").public.key_id == key.public.key_id
    head, body, signature = jwt.sign(key, {"sub": "x"}).split(".")
    other = jwt.sign(SigningKey.load_or_create(tmp_path / "other"), {"sub": "x"})

    none = "eyJhbGciOiJub25lIn0"  # {"alg":"none"}
    for bad in (f"{head}.{body}A.{signature}", f"{head}.{body}.", "a.b.c", other, "", f"{none}.{body}."):
        with pytest.raises(jwt.TokenError):
            jwt.parse(bad).verify([key.public])


@given(st.text(max_size=200) | st.from_regex(r"[A-Za-z0-9_=-]*\.[A-Za-z0-9_=-]*\.[A-Za-z0-9_=-]*", fullmatch=True))
def test_arbitrary_text_is_decoded_or_rejected(text: str) -> None:
    with contextlib.suppress(jwt.TokenError):
        jwt.parse(text)


def test_key_files_of_each_format_are_read(tmp_path: Path) -> None:
    form = serialization.PrivateFormat.TraditionalOpenSSL
    public = RSA.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    path = tmp_path / "keys"
    path.write_bytes(
        b"\n".join((private_pem(KEYS["ES384"], form), private_pem(KEYS["ES256"]), public, generate_ca("x").certificate))
    )

    assert [key.jwk()["alg"] for key in load_public_keys(path)] == ["ES384", "ES256", "RS256", "ES256"]
    path.write_bytes(public)
    with pytest.raises(KeyFileError, match="does not contain a valid RSA or ECDSA private key"):
        SigningKey.load(path)
    path.write_bytes(b"nothing")
    with pytest.raises(KeyFileError, match="does not contain any valid RSA or ECDSA public keys"):
        load_public_keys(path)
    with pytest.raises(KeyFileError, match="nope"):
        load_public_keys(tmp_path / "nope")


def test_encrypted_token_is_neither_decrypted_nor_decompressed(tmp_path: Path) -> None:
    compressed = base64.urlsafe_b64encode(b'{"alg":"dir","enc":"A128GCM","zip":"DEF"}').rstrip(b"=").decode()
    bomb = base64.urlsafe_b64encode(zlib.compress(b" " * 10_000_000)).rstrip(b"=").decode()
    key = SigningKey.load_or_create(tmp_path / "key")

    for token in (f"{compressed}..AAAA.{bomb}.AAAA", f"{compressed}.{bomb}.AAAA"):
        with pytest.raises(jwt.TokenError):
            jwt.parse(token).verify([key.public])
