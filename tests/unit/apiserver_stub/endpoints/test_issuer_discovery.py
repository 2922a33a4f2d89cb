"""Tests for the issuer's discovery document, which requires an HTTPS issuer."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.endpoints.issuer_discovery import DOCUMENT_PATH, KEYS_PATH, IssuerDiscovery


@pytest.mark.row("path.apiserver.{service-account-issuer}/.well-known/openid-configuration")
@pytest.mark.parametrize(
    ("name", "served"),
    [
        ("https://tokens.example", True),
        ("https://tokens.example:8443/cluster", True),
        ("http://tokens.example", False),
        ("tokens.example", False),
        ("https:///cluster", False),
        ("https://tokens.example?for=me", False),
        ("https://tokens.example#me", False),
    ],
)
@pytest.mark.parametrize("path", [DOCUMENT_PATH, KEYS_PATH])
async def test_document_and_keys_need_a_valid_https_address(name: str, path: str, served: bool) -> None:
    tokens: Any = SimpleNamespace(issuer=name, keys=SimpleNamespace(published=(), max_age_seconds=60))
    endpoint = IssuerDiscovery(tokens, lambda: "127.0.0.1:6443", jwks_uri="", external_hostname="")
    request: Any = SimpleNamespace(info=SimpleNamespace(path=path))

    assert (await endpoint.respond(request) is not None) is served


@pytest.mark.parametrize(
    ("jwks_uri", "name", "expected"),
    [
        ("", "", "https://127.0.0.1:6443/openid/v1/jwks"),
        ("", "api.example", "https://api.example:6443/openid/v1/jwks"),
        ("https://keys.example", "api.example", "https://keys.example"),
    ],
)
async def test_document_refers_to_the_keys(jwks_uri: str, name: str, expected: str) -> None:
    published = [SimpleNamespace(algorithm=kind, jwk=lambda kind=kind: {"alg": kind}) for kind in ("RS256", "ES256")]
    keys = SimpleNamespace(published=[*published, published[0]], max_age_seconds=60)
    tokens: Any = SimpleNamespace(issuer="https://tokens.example", keys=keys)
    endpoint = IssuerDiscovery(tokens, lambda: "127.0.0.1:6443", jwks_uri=jwks_uri, external_hostname=name)

    async def send(path: str) -> Any:
        request: Any = SimpleNamespace(info=SimpleNamespace(path=path))
        reply = await endpoint.respond(request)
        assert reply is not None and reply.body is not None
        assert reply.headers["Cache-Control"] == "public, max-age=60"
        return json.loads(reply.body), reply.content_type

    document, content_type = await send(DOCUMENT_PATH)
    assert (document["issuer"], document["jwks_uri"]) == ("https://tokens.example", expected)
    assert (document["id_token_signing_alg_values_supported"], content_type) == (["ES256", "RS256"], "application/json")
    found, content_type = await send(KEYS_PATH)
    assert [key["alg"] for key in found["keys"]] == ["RS256", "ES256", "RS256"]
    assert content_type == "application/jwk-set+json"
