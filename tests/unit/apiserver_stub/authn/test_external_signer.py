"""Tests for the keys of an external signer: token assembly, key refresh and invalid responses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from apiserver_stub.authn import jwt
from apiserver_stub.authn.external_signer.keys import ExternalKeys
from apiserver_stub.authn.external_signer.metrics import SignerMetrics
from apiserver_stub.authn.external_signer.proto import external_jwt_pb2 as pb
from apiserver_stub.authn.keys import SigningKey, algorithms
from apiserver_stub.authn.token_keys import SigningError
from nodeagent.base.aio import TaskOwner
from nodeagent.base.gobase64 import encode_url
from nodeagent.testing.clock import FakeClock

DER = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


class FakeSigner:
    """Signer with the keys in *directory*; the last added key signs."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.keys: dict[str, SigningKey] = {}
        self.excluded: set[str] = set()
        self.header: dict[str, Any] | None = None
        self.max_seconds, self.hint, self.fetches, self.failure = 3600, 60, 0, ""
        self.add("one")

    def add(self, name: str) -> None:
        self.keys[name] = SigningKey.load_or_create(self._directory / name)

    async def metadata(self, seconds: float) -> pb.MetadataResponse:
        return pb.MetadataResponse(max_token_expiration_seconds=self.max_seconds)

    async def fetch_keys(self, seconds: float) -> pb.FetchKeysResponse:
        self.fetches += 1
        await asyncio.sleep(0)
        if self.failure:
            raise SigningError(self.failure)
        keys = [
            pb.Key(
                key_id=name,
                key=key.private.public_key().public_bytes(*DER),
                exclude_from_oidc_discovery=name in self.excluded,
            )
            for name, key in self.keys.items()
        ]
        return pb.FetchKeysResponse(keys=keys, data_timestamp=pb.Timestamp(seconds=1), refresh_hint_seconds=self.hint)

    async def sign(self, claims: str, seconds: float) -> pb.SignJWTResponse:
        name, key = list(self.keys.items())[-1]
        header = self.header or {"alg": key.algorithm, "kid": name, "typ": "JWT"}
        first = encode_url(msgspec.json.encode(header))
        signature = algorithms()[key.algorithm].sign(f"{first}.{claims}".encode(), key.private)
        return pb.SignJWTResponse(header=first, signature=encode_url(signature))


@pytest.fixture
def signer(tmp_path: Path) -> FakeSigner:
    return FakeSigner(tmp_path)


@pytest.fixture
async def keys(signer: FakeSigner, clock: FakeClock) -> ExternalKeys:
    found = ExternalKeys(signer, clock, SignerMetrics())
    await found.load()
    return found


async def verified(keys: ExternalKeys, token: str) -> dict[str, Any]:
    parsed = jwt.parse(token)
    parsed.verify(await keys.verifying(parsed.key_id))
    return parsed.claims


async def test_signed_token_verifies_with_the_keys_of_the_signer(keys: ExternalKeys) -> None:
    token = await keys.sign({"sub": "x"})

    assert await verified(keys, token) == {"sub": "x"}
    assert jwt.parse(token).header == {"alg": "ES256", "kid": "one", "typ": "JWT"}
    assert keys.max_token_seconds == 3600


async def test_unknown_key_is_fetched_once_for_concurrent_tokens(keys: ExternalKeys, signer: FakeSigner) -> None:
    signer.add("two")
    before = signer.fetches

    found = await asyncio.gather(*(keys.verifying("two") for _ in range(5)))

    assert [[key.key_id for key in each] for each in found] == [["two"]] * 5
    assert signer.fetches == before + 1
    assert {key.key_id for key in await keys.verifying("")} == {"one", "two"}


async def test_tokens_with_unknown_keys_cause_a_limited_number_of_fetches(
    keys: ExternalKeys, signer: FakeSigner, clock: FakeClock
) -> None:
    for number in range(100):
        assert not await keys.verifying(f"unknown-{number}")
    before = signer.fetches
    assert before < 20

    await clock.advance(5)
    assert not await keys.verifying("unknown")
    assert signer.fetches == before + 1


async def test_keys_are_fetched_again_after_the_hint_of_the_signer(
    keys: ExternalKeys, signer: FakeSigner, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with TaskOwner("test") as tasks:
        tasks.start(keys.run(), "keys")
        await clock.advance(59)
        assert (keys.max_age_seconds, signer.fetches) == (1, 1)
        signer.add("two")
        await clock.advance(1)
        assert [key.key_id for key in keys.published] == ["one", "two"]

        signer.failure = "no route"
        await clock.advance(60)
        assert "Failed to fetch keys of external JWT signer" in caplog.text
        assert [key.key_id for key in keys.published] == ["one", "two"] and keys.max_age_seconds == 0
        signer.failure = ""
        signer.add("three")
        await clock.advance(10)
        assert [key.key_id for key in keys.published] == ["one", "two", "three"]


async def test_excluded_key_verifies_but_is_not_published_and_does_not_sign(
    signer: FakeSigner, clock: FakeClock
) -> None:
    signer.add("legacy")
    signer.excluded.add("legacy")
    keys = ExternalKeys(signer, clock, SignerMetrics())
    await keys.load()

    assert [key.key_id for key in keys.published] == ["one"]
    assert [key.key_id for key in await keys.verifying("legacy")] == ["legacy"]
    with pytest.raises(SigningError, match=r"\(kid: legacy\) is excluded from OIDC discovery docs"):
        await keys.sign({})


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        ({"alg": "ES256", "kid": "one"}, "while validating header: bad type"),
        ({"alg": "ES256", "typ": "JWT"}, "key id missing"),
        ({"alg": "ES256", "typ": "JWT", "kid": "k" * 1025}, "key id longer than 1 kb"),
        ({"alg": "HS256", "typ": "JWT", "kid": "one"}, 'bad signing algorithm "HS256"'),
        ({"alg": "ES256", "typ": "JWT", "kid": "one", "jku": "x"}, "while parsing header JSON: .*jku"),
    ],
)
async def test_invalid_header_is_rejected(
    keys: ExternalKeys, signer: FakeSigner, header: dict[str, Any], problem: str
) -> None:
    signer.header = header

    with pytest.raises(SigningError, match=problem):
        await keys.sign({})


def _other_key(signer: FakeSigner) -> None:
    signer.keys["one"] = SigningKey(ed25519.Ed25519PrivateKey.generate(), signer.keys["one"].public)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda signer: setattr(signer, "max_seconds", 300), r"\(300s\) is less than acceptable \(min 600s\)"),
        (lambda signer: setattr(signer, "hint", 0), r"found invalid refresh hint \(0s\)"),
        (lambda signer: setattr(signer, "failure", "gone"), "while setting up external-jwt-signer: gone"),
        (lambda signer: signer.keys.clear(), "found no keys"),
        (lambda signer: signer.keys.update({"k" * 1025: signer.keys["one"]}), "found invalid public key id"),
        (_other_key, 'key "one" is not an RSA or ECDSA key'),
    ],
)
async def test_unusable_signer_is_reported_at_startup(
    signer: FakeSigner, clock: FakeClock, change: Callable[[FakeSigner], Any], problem: str
) -> None:
    change(signer)

    with pytest.raises(SigningError, match=problem):
        await ExternalKeys(signer, clock, SignerMetrics()).load()
