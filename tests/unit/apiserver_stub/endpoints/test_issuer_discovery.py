"""Tests for the issuer's discovery document, which requires an HTTPS issuer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.endpoints import issuer_discovery
from apiserver_stub.options import Options


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
@pytest.mark.parametrize("path", [issuer_discovery.DOCUMENT_PATH, issuer_discovery.KEYS_PATH])
def test_document_and_keys_need_a_valid_https_address(name: str, path: str, served: bool) -> None:
    server: Any = SimpleNamespace(
        options=Options(), tokens=SimpleNamespace(issuer=name, keys=()), address="127.0.0.1:6443"
    )
    request: Any = SimpleNamespace(info=SimpleNamespace(path=path))

    assert (issuer_discovery.answer(server, request) is not None) is served
