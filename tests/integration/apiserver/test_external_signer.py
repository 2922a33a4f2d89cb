"""Tests for service account tokens that an external process signs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from apiserver_stub.authn import jwt
from apiserver_stub.authn.external_signer import keys as module
from apiserver_stub.authn.keys import from_jwk
from apiserver_stub.server.authentication import AuthenticationError

from .etcd import serving
from .processes import helper_process
from .test_limits import Client

SIGNER = "tests.integration.apiserver.token_signer"
TOKENS = "/api/v1/namespaces/default/serviceaccounts/default/token"


def options(socket: str, *more: str) -> tuple[str, ...]:
    return (f"--service-account-signing-endpoint={socket}", "--compatibility-version=1.36", *more)


async def issued(client: Client, seconds: int = 3600) -> dict[str, Any]:
    code, _, body = await client("POST", TOKENS, json={"spec": {"expirationSeconds": seconds}})
    assert code == 201, body
    found: dict[str, Any] = json.loads(body)
    return found


async def user_of(client: Client, token: str) -> str:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    _, _, body = await client("POST", "/apis/authentication.k8s.io/v1/tokenreviews", json=review)
    return str(json.loads(body)["status"].get("user", {}).get("username", ""))


async def published(client: Client) -> list[dict[str, Any]]:
    _, headers, body = await client("GET", "/openid/v1/jwks")
    assert 0 < int(headers["cache-control"].removeprefix("public, max-age=")) <= 600
    found: list[dict[str, Any]] = json.loads(body)["keys"]
    return found


@pytest.mark.parametrize("version", ["v1", "v1alpha1"])
async def test_process_signs_tokens_which_its_keys_verify(tmp_path: Path, version: str) -> None:
    socket = str(tmp_path / "sign.sock")
    async with (
        helper_process(SIGNER, socket, version, "7200") as command,
        serving(tmp_path / "a", *options(socket)) as client,
    ):
        first = (await issued(client))["status"]["token"]
        assert await user_of(client, first) == "system:serviceaccount:default:default"
        (key,) = await published(client)
        public, parsed = from_jwk(key), jwt.parse(first)
        assert public is not None and (public.key_id, key["alg"]) == ("key-1", "RS256")
        parsed.verify([public])
        _, _, body = await client("GET", "/.well-known/openid-configuration")
        assert json.loads(body)["id_token_signing_alg_values_supported"] == ["RS256"]

        await command("rotate")
        second = (await issued(client))["status"]["token"]
        assert jwt.parse(second).key_id == "key-2"
        for token in (first, second):
            assert await user_of(client, token) == "system:serviceaccount:default:default"
        assert [item["kid"] for item in await published(client)] == ["key-1", "key-2"]


async def test_lifetime_of_the_signer_limits_tokens(tmp_path: Path) -> None:
    socket = f"@{tmp_path.name}.sign"
    async with (
        helper_process(SIGNER, socket, "v1", "1200"),
        serving(tmp_path / "a", *options(socket)) as client,
    ):
        assert (await issued(client, 3607))["spec"]["expirationSeconds"] == 1200
        with pytest.raises(AuthenticationError, match=r"supported by service-account-signing-endpoint: 1h0m0s > 20m0s"):
            async with serving(tmp_path / "b", *options(socket, "--service-account-max-token-expiration=1h")):
                pass


async def test_failure_of_the_signer_is_reported_to_the_client(tmp_path: Path) -> None:
    socket = str(tmp_path / "sign.sock")
    async with (
        helper_process(SIGNER, socket, "v1", "7200") as command,
        serving(tmp_path / "a", *options(socket)) as client,
    ):
        await command("fail")
        code, _, body = await client("POST", TOKENS, json={"spec": {}})
        text = "failed to generate token: while signing jwt: rpc error: code = Internal desc = the module is locked"
        assert (code, json.loads(body)["message"]) == (500, text)


async def test_calls_of_the_signer_have_metrics(tmp_path: Path) -> None:
    socket = str(tmp_path / "sign.sock")
    async with (
        helper_process(SIGNER, socket, "v1", "7200") as command,
        serving(tmp_path / "a", *options(socket)) as client,
    ):
        await issued(client)
        await command("fail")
        assert (await client("POST", TOKENS, json={"spec": {}}))[0] == 500
        found = {}
        for line in (await client.metrics()).splitlines():
            if line.startswith("apiserver_externaljwt_"):
                name, _, value = line.removeprefix("apiserver_externaljwt_").rpartition(" ")
                found[name] = float(value)

    assert found['sign_request_total{code="OK"}'] == 1
    assert found['sign_request_total{code="Internal"}'] == 1
    assert found['fetch_keys_request_total{code="OK"}'] >= 1
    assert found["fetch_keys_success_timestamp"] > 0
    assert "fetch_keys_data_timestamp" in found
    method = 'method="/v1.ExternalJWTSigner/Sign"'
    counts = {name: value for name, value in found.items() if name.startswith("request_duration_seconds_count")}
    assert {name.partition("code=")[2]: value for name, value in counts.items() if method in name} == {
        '"OK"}': 1,
        '"Internal"}': 1,
    }


async def test_missing_signer_prevents_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "START_SECONDS", 0.1)

    with pytest.raises(AuthenticationError, match="while setting up external-jwt-signer: rpc error: code = "):
        async with serving(tmp_path / "a", *options(str(tmp_path / "none.sock"))):
            pass
