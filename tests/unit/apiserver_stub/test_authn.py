"""Callers are known by certificate, token or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from apiserver_stub.authn import Authenticator
from apiserver_stub.authn.jwt import SigningKey, TokenError
from apiserver_stub.authn.token_file import TokenFile, TokenFileError
from apiserver_stub.authz import AlwaysAllow, AlwaysDeny, Chain
from apiserver_stub.authz.builtin import Builtin
from apiserver_stub.request import ANONYMOUS, RequestInfo, User
from apiserver_stub.status import ApiError

CERTIFICATE = {"subject": ((("organizationName", "dev"),), (("commonName", "carol"),))}


@pytest.fixture
def tokens(tmp_path: Path) -> TokenFile:
    path = tmp_path / "tokens.csv"
    path.write_text('abc,alice,u1,"dev, ops"\n\nabc,alice2,u2\n,empty,u3\ndef,bob,u4\n')
    return TokenFile(path)


def test_a_token_file_names_users(tokens: TokenFile) -> None:
    assert tokens.authenticate("abc") == User("alice2", "u2")
    assert tokens.authenticate("def") == User("bob", "u4")
    assert tokens.authenticate("") is None


def test_a_broken_token_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("a,b\n")

    with pytest.raises(TokenFileError, match="must have at least 3 columns"):
        TokenFile(tmp_path / "t")
    with pytest.raises(TokenFileError, match="nope"):
        TokenFile(tmp_path / "nope")


def test_the_order_of_authentication(tokens: TokenFile) -> None:
    authenticator = Authenticator([tokens], anonymous=True)

    assert authenticator.authenticate({"Authorization": "Bearer def"}, None).groups == ("system:authenticated",)
    assert authenticator.authenticate({"Authorization": "bearer wrong"}, CERTIFICATE).name == "carol"
    assert authenticator.authenticate({}, CERTIFICATE).groups == ("dev", "system:authenticated")
    assert authenticator.authenticate({}, None) is ANONYMOUS
    with pytest.raises(ApiError) as error:
        authenticator.authenticate({"Authorization": "Bearer wrong"}, None)
    assert error.value.code == 401
    with pytest.raises(ApiError):
        Authenticator([tokens], anonymous=False).authenticate({}, None)


def test_tokens_are_signed_and_verified(tmp_path: Path) -> None:
    key = SigningKey.load_or_create(tmp_path / "key")
    token = key.sign({"sub": "x"})

    assert SigningKey.load_or_create(tmp_path / "key").verify(token) == {"sub": "x"}
    head, body, signature = token.split(".")
    other = SigningKey.load_or_create(tmp_path / "other").sign({"sub": "x"})
    for bad in (
        f"{head}.{body}x.{signature}",
        f"{head}.{body}.",
        "a.b.c",
        other,
        "",
        f"{head}.{body}.{signature[:-4]}AAAA",
    ):
        with pytest.raises(TokenError):
            key.verify(bad)


@pytest.mark.parametrize(
    ("user", "info", "allowed"),
    [
        (User("a", groups=("system:masters",)), RequestInfo("delete", "", "", "v1", "nodes"), True),
        (User("n", groups=("system:nodes",)), RequestInfo("patch", "", "", "v1", "nodes"), True),
        (User("u", groups=("system:authenticated",)), RequestInfo("get", "/openapi/v3/api/v1"), True),
        (User("u", groups=("system:authenticated",)), RequestInfo("get", "/metrics"), False),
        (User("u", groups=("system:authenticated",)), RequestInfo("list", "", "", "v1", "nodes"), False),
        (ANONYMOUS, RequestInfo("get", "/healthz"), True),
        (ANONYMOUS, RequestInfo("post", "/healthz"), False),
        (ANONYMOUS, RequestInfo("get", "/readyz/etcd"), False),
        (ANONYMOUS, RequestInfo("get", "/api"), False),
    ],
)
def test_what_the_default_allows(user: User, info: RequestInfo, allowed: bool) -> None:
    assert Chain([Builtin()]).authorize(user, info)[0] is allowed


def test_authorizers_are_asked_in_order() -> None:
    info = RequestInfo("list", "", "", "v1", "nodes")

    assert Chain([AlwaysDeny(), AlwaysAllow()]).authorize(ANONYMOUS, info) == (True, "")
    assert Chain([AlwaysDeny()]).authorize(ANONYMOUS, info) == (False, "Everything is forbidden.")
