"""Tests for the issuer's discovery document, which requires an HTTPS issuer."""

from __future__ import annotations

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
