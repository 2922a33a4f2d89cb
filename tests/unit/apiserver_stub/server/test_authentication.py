"""Tests for authenticators built from options: files are read at startup, and invalid ones are named."""

from __future__ import annotations

import json
import ssl
from contextlib import AsyncExitStack, nullcontext
from pathlib import Path
from typing import Any

import pytest

from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.authn.certificates import PeerCertificates
from apiserver_stub.authn.config_file import AuthenticationConfig
from apiserver_stub.authn.jwt_config import JwtConfigError
from apiserver_stub.authn.keys import SigningKey
from apiserver_stub.options import OptionsError, parse
from apiserver_stub.server.authentication import (
    Authentication,
    AuthenticationError,
    build_authentication,
    configuration_of,
)
from nodeagent.base.tls import generate_ca, issue
from tests.unit.apiserver_stub.authn.conftest import Objects
from tests.unit.apiserver_stub.authn.test_external_signer import FakeSigner


class ClosableSigner(FakeSigner):
    async def close(self) -> None:
        pass


OIDC = ("--oidc-issuer-url=https://127.0.0.1:1", "--oidc-client-id=c")


@pytest.fixture
def store() -> Objects:
    return Objects()


@pytest.fixture
def own_tokens(tmp_path: Path) -> Path:
    path = tmp_path / "own.csv"
    path.write_text("own,admin,admin\n")
    return path


async def build(store: Objects, own_tokens: Path, stack: AsyncExitStack, *arguments: str) -> Authentication:
    options = parse([f"--data-dir={own_tokens.parent}", "--authorization-mode=RBAC", *arguments])
    return await build_authentication(options, store, own_tokens, stack)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--client-ca-file=BAD"], r'error loading CA bundle for "client-ca-bundle::.*bad": data does not contain any'),
        (["--requestheader-client-ca-file=NOPE"], r'error loading CA bundle for "request-header::.*nope": .*No such'),
        (["--token-auth-file=BAD"], "must have at least 3 columns"),
        (["--service-account-key-file=BAD"], "does not contain any valid RSA or ECDSA public keys"),
        (
            ["--service-account-key-file=KEY", "--service-account-signing-key-file=BAD"],
            "failed to parse service-account-issuer-key-file: error reading private key file",
        ),
        (["--authentication-token-webhook-config-file=NOPE"], "nope: cannot be read"),
        ([*OIDC, "--oidc-ca-file=NOPE"], "oidc-ca-file: .*No such file"),
        ([*OIDC, "--oidc-ca-file=BAD"], "(?i)PEM|certificate"),
        (
            ["--authentication-config=BAD", "--feature-gates=StructuredAuthenticationConfiguration=true"],
            "expected AuthenticationConfiguration",
        ),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
async def test_invalid_file_is_named_in_the_error(
    store: Any, own_tokens: Path, arguments: list[str], problem: str
) -> None:
    directory = own_tokens.parent
    (directory / "bad").write_text("not,this\n")
    SigningKey.load_or_create(directory / "key")
    for word in ("BAD", "KEY", "NOPE"):
        arguments = [argument.replace(word, str(directory / word.lower())) for argument in arguments]

    async with AsyncExitStack() as stack:
        with pytest.raises(AuthenticationError, match=problem):
            await build(store, own_tokens, stack, *arguments)


async def test_gates_of_the_release_enable_uids_of_certificates_and_proxies(store: Any, own_tokens: Path) -> None:
    authority, directory = generate_ca("x"), own_tokens.parent
    (directory / "ca").write_bytes(authority.certificate)
    certificate = issue(authority, "front", client=True).certificate.decode()
    presented = PeerCertificates((ssl.PEM_cert_to_DER_cert(certificate),), {})
    options = [
        f"--requestheader-client-ca-file={directory / 'ca'}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-uid-headers=X-Remote-Uid",
    ]

    async with AsyncExitStack() as stack:
        built = await build(store, own_tokens, stack, *options, "--compatibility-version=1.36")
        user = await built.authenticator.authenticate({"X-Remote-User": "jane", "X-Remote-Uid": "u1"}, presented)

    assert (user.name, user.uid) == ("jane", "u1")
    for release in ("1.29", "1.32"):
        with pytest.raises(OptionsError, match="without enabling RemoteRequestHeaderUID"):
            parse([*options, f"--compatibility-version={release}"])


@pytest.mark.row("opt.service-account-key-file")
async def test_serving_and_generated_keys_are_the_default_keys(store: Any, own_tokens: Path) -> None:
    directory = own_tokens.parent
    pair = issue(generate_ca("x"), "server", server=True)
    for name, data in (("crt", pair.certificate), ("key", pair.key)):
        (directory / name).write_bytes(data)
    serving = SigningKey.load(directory / "key").public.key_id
    files = (f"--tls-cert-file={directory / 'crt'}", f"--tls-private-key-file={directory / 'key'}")
    other = SigningKey.load_or_create(directory / "other").public.key_id

    async def keys(*arguments: str) -> set[str]:
        async with AsyncExitStack() as stack:
            built = await build(store, own_tokens, stack, *arguments)
            return {key.key_id for key in built.service_accounts.keys.published}

    (own,) = await keys()
    assert await keys(*files) == {own, serving}
    given = f"--service-account-key-file={directory / 'other'}"
    assert await keys(*files, given) == {own, other}
    assert await keys(*files, given, f"--service-account-signing-key-file={directory / 'other'}") == {other}


@pytest.mark.row("opt.anonymous-auth")
async def test_always_allow_disables_anonymous_authentication(store: Any, own_tokens: Path) -> None:
    async def lets_in(*arguments: str) -> bool:
        async with AsyncExitStack() as stack:
            built = await build(store, own_tokens, stack, *arguments)
            try:
                await built.authenticator.authenticate({}, None)
            except ApiError:
                return False
            return True

    assert await lets_in()
    assert not await lets_in("--anonymous-auth=false")
    assert not await lets_in("--authorization-mode=AlwaysAllow")


async def test_configuration_file_limits_anonymous_requests_to_paths(store: Any, own_tokens: Path) -> None:
    config = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthenticationConfiguration",
        "anonymous": {"enabled": True, "conditions": [{"path": "/healthz"}]},
    }
    (own_tokens.parent / "authn.yaml").write_text(json.dumps(config))
    options = ["--compatibility-version=1.36", f"--authentication-config={own_tokens.parent / 'authn.yaml'}"]

    async with AsyncExitStack() as stack:
        authenticator = (await build(store, own_tokens, stack, *options)).authenticator
        assert (await authenticator.authenticate({}, None, path="/healthz")).name == "system:anonymous"
        assert await authenticator.review("", ()) is None
        for path in ("/healthz/etcd", "/version"):
            with pytest.raises(ApiError):
                await authenticator.authenticate({}, None, path=path)
    async with AsyncExitStack() as stack:
        with pytest.raises(AuthenticationError, match="anonymous-auth flag cannot be set"):
            await build(store, own_tokens, stack, *options, "--anonymous-auth=true")


class Recorder:
    """Webhook that records its requests and accepts every token."""

    def __init__(self, *_: object, **__: object) -> None:
        self.requests: list[Any] = []
        Recorder.last = self

    async def __aenter__(self) -> Recorder:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def post(self, body: Any) -> Any:
        self.requests.append(body)
        return {**body, "status": {"authenticated": True, "user": {"username": "jane"}}}

    last: Recorder


@pytest.mark.parametrize(("release", "metadata"), [("1.33", {"creationTimestamp": None}), ("1.34", {})])
async def test_reviews_have_null_times_in_early_releases(
    store: Any, own_tokens: Path, monkeypatch: pytest.MonkeyPatch, release: str, metadata: dict[str, Any]
) -> None:
    monkeypatch.setattr("apiserver_stub.server.authentication.Webhook", Recorder)
    options = ["--authentication-token-webhook-config-file=/x", f"--compatibility-version={release}"]

    async with AsyncExitStack() as stack:
        authenticator = (await build(store, own_tokens, stack, *options)).authenticator
        user = await authenticator.authenticate({"Authorization": "Bearer t"}, None)

    assert user.name == "jane"
    assert [request["metadata"] for request in Recorder.last.requests] == [metadata]


@pytest.mark.parametrize(("release", "algorithms", "problem"), [("1.29", 1, ""), ("1.30", 9, "disallowed issuers")])
def test_configured_issuers_follow_the_rules_of_the_release(
    tmp_path: Path, release: str, algorithms: int, problem: str
) -> None:
    def issuers(url: str) -> AuthenticationConfig:
        mappings = {"username": {"claim": "sub", "prefix": ""}}
        config = {
            "apiVersion": "apiserver.config.k8s.io/v1alpha1",
            "kind": "AuthenticationConfiguration",
            "jwt": [{"issuer": {"url": url, "audiences": ["a"]}, "claimMappings": mappings}],
        }
        (tmp_path / "authn.yaml").write_text(json.dumps(config))
        gate = "--feature-gates=StructuredAuthenticationConfiguration=true"
        own = "--service-account-issuer=https://own.test"
        path = f"--authentication-config={tmp_path / 'authn.yaml'}"
        return configuration_of(parse([f"--compatibility-version={release}", own, gate, path]))

    (found,) = issuers("https://other.test").issuers
    assert len(found.algorithms) == algorithms
    with pytest.raises(JwtConfigError, match=problem) if problem else nullcontext():
        issuers("https://own.test")


@pytest.mark.row("opt.service-account-max-token-expiration")
@pytest.mark.parametrize(("limit", "seconds"), [("0s", 90_000), ("2h", 7200)])
async def test_lifetime_of_tokens_is_limited(store: Any, own_tokens: Path, limit: str, seconds: int) -> None:
    account = {"metadata": {"name": "a", "namespace": "n", "uid": "u"}}

    async with AsyncExitStack() as stack:
        built = await build(store, own_tokens, stack, f"--service-account-max-token-expiration={limit}")
        issued = await built.service_accounts.issue(account, ("a",), 90_000, None)

    assert issued.seconds == seconds


@pytest.mark.parametrize(("limit", "seconds"), [("0s", 7200), ("1h", 3600), ("2h", 7200), ("7201s", None)])
async def test_lifetime_of_tokens_is_limited_by_the_external_signer(
    store: Any, own_tokens: Path, monkeypatch: pytest.MonkeyPatch, limit: str, seconds: int | None
) -> None:
    signer = ClosableSigner(own_tokens.parent)
    signer.max_seconds = 7200
    monkeypatch.setattr("apiserver_stub.authn.external_signer.client.SignerClient", lambda endpoint, metrics: signer)
    options = [
        "--compatibility-version=1.34",
        "--service-account-signing-endpoint=/signer.sock",
        f"--service-account-max-token-expiration={limit}",
    ]
    account = {"metadata": {"name": "a", "namespace": "n", "uid": "u"}}

    async with AsyncExitStack() as stack:
        with pytest.raises(AuthenticationError, match="2h0m1s > 2h0m0s") if seconds is None else nullcontext():
            built = await build(store, own_tokens, stack, *options)
            issued = await built.service_accounts.issue(account, ("a",), 90_000, None)
            assert issued.seconds == seconds
