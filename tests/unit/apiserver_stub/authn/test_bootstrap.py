"""Tests for bootstrap tokens and their secrets."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from apiserver_stub.apimachinery.request import User
from apiserver_stub.authn.bootstrap import BootstrapTokens
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.authn.conftest import Objects

TOKEN = "abcdef.0123456789abcdef"
NOW = 1_700_000_000.0


def secret(store: Objects, *, kind: str = "bootstrap.kubernetes.io/token", deleted: bool = False, **data: str) -> None:
    full = {"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true"}
    full |= {name.replace("_", "-"): value for name, value in data.items()}
    metadata: dict[str, Any] = {"namespace": "kube-system", "name": "bootstrap-token-abcdef", "uid": "u"}
    if deleted:
        metadata["deletionTimestamp"] = "2023-01-01T00:00:00Z"
    encoded = {name: base64.b64encode(value.encode()).decode() for name, value in full.items()}
    store.put("core/secrets", {"metadata": metadata, "type": kind, "data": encoded})


def tokens(store: Objects) -> BootstrapTokens:
    return BootstrapTokens(store, now=lambda: NOW, identity=Identity())  # type: ignore[arg-type]


@pytest.mark.row("opt.enable-bootstrap-token-auth")
async def test_valid_token_authenticates_a_bootstrapper(store: Objects) -> None:
    groups = "system:bootstrappers:workers, system:bootstrappers:a:b"
    secret(store, expiration="2023-11-15T00:00:00Z", auth_extra_groups=groups)

    assert await tokens(store).user_of(TOKEN) == User(
        "system:bootstrap:abcdef",
        groups=("system:bootstrappers", "system:bootstrappers:a:b", "system:bootstrappers:workers"),
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "Opaque"},
        {"deleted": True},
        {"token_id": "fedcba"},
        {"token_secret": "0123456789abcdee"},
        {"usage_bootstrap_authentication": "false"},
        {"expiration": "2023-11-14T00:00:00Z"},
        {"expiration": "soon"},
        {"auth_extra_groups": "system:masters"},
        {"auth_extra_groups": "system:bootstrappers:good,system:bootstrappers:"},
    ],
    ids=lambda wrong: " ".join(f"{key}={value}" for key, value in wrong.items()),
)
async def test_token_of_an_invalid_secret_is_rejected(store: Objects, wrong: dict[str, Any]) -> None:
    secret(store, **wrong)

    assert await tokens(store).user_of(TOKEN) is None


async def test_token_of_another_format_is_ignored(store: Objects) -> None:
    secret(store)

    for text in ("abcdef.0123456789abcde", "ABCDEF.0123456789abcdef", f"{TOKEN}x", "zzzzzz.0123456789abcdef"):
        assert await tokens(store).user_of(text) is None
