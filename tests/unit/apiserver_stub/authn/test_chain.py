"""Tests for the authentication chain: proxy headers, certificate, token, anonymous, in this order."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from apiserver_stub.apimachinery.request import ANONYMOUS, User
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.authn import Authenticator
from apiserver_stub.authn.anonymous import AnonymousAccess
from apiserver_stub.authn.authenticators import ApiAudienceAuthenticator, AuthenticatedUser, Rejected
from apiserver_stub.authn.certificates import PeerCertificates
from apiserver_stub.authn.token_file import TokenFile, TokenFileError
from apiserver_stub.authn.tokens import REMEMBERED_SECONDS, Tokens
from apiserver_stub.transport.sub_protocols import sub_protocols
from nodeagent.base.identity import Identity
from nodeagent.testing.clock import FakeClock

API = ("https://api",)
PRESENTED = PeerCertificates((b"leaf",), {})


class FixedAuthenticator:
    """Authenticator with a fixed result: a user, ``None`` for no opinion, or the text of an error."""

    def __init__(self, response: User | str | None) -> None:
        self._response = response

    def user_of(self, headers: Mapping[str, str], presented: PeerCertificates) -> User | None:
        if isinstance(self._response, str):
            raise Rejected(self._response)
        return self._response


class Counting:
    """Token authenticator that counts its calls."""

    def __init__(self, response: AuthenticatedUser | str | None) -> None:
        self.response, self.calls = response, 0

    async def authenticate(self, token: str, audiences: Sequence[str]) -> AuthenticatedUser | None:
        self.calls += 1
        if isinstance(self.response, str):
            raise Rejected(self.response)
        return self.response


@pytest.fixture
def token_file(tmp_path: Path) -> TokenFile:
    path = tmp_path / "tokens.csv"
    path.write_text('abc,alice,u1,"dev, ops"\n\nabc,alice2,u2\n,empty,u3\ndef,bob,u4\n')
    return TokenFile(path)


@pytest.fixture
def tokens(token_file: TokenFile) -> Tokens:
    return Tokens([ApiAudienceAuthenticator(token_file, API)], API)


@pytest.mark.row("opt.token-auth-file")
async def test_token_file_authenticates_users(token_file: TokenFile) -> None:
    assert await token_file.user_of("abc") == User("alice2", "u2")
    assert await token_file.user_of("def") == User("bob", "u4")
    assert await token_file.user_of("") is None


def test_invalid_token_file_is_named_in_the_error(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("a,b\n")

    with pytest.raises(TokenFileError, match="must have at least 3 columns"):
        TokenFile(tmp_path / "t")
    with pytest.raises(TokenFileError, match="nope"):
        TokenFile(tmp_path / "nope")


async def test_proxy_headers_take_precedence_over_certificate_and_token(tokens: Tokens) -> None:
    proxy, certificate = User("proxied"), User("carol", groups=("dev",))

    async def name(headers: dict[str, str], by_header: Any, by_certificate: Any) -> str:
        authenticator = Authenticator(
            tokens,
            Identity(),
            anonymous=AnonymousAccess(),
            certificates=FixedAuthenticator(by_certificate),  # type: ignore[arg-type]
            headers=FixedAuthenticator(by_header),  # type: ignore[arg-type]
        )
        return (await authenticator.authenticate(headers, PRESENTED)).name

    wrong = {"Authorization": "bearer wrong"}
    assert await name(wrong, proxy, certificate) == "proxied"
    assert await name(wrong, "no proxy", certificate) == "carol"
    assert await name({"Authorization": "Bearer def"}, "no proxy", "unknown authority") == "bob"
    assert await name({}, None, None) == ANONYMOUS.name


async def test_bearer_token_is_the_word_after_one_space(tokens: Tokens) -> None:
    authenticator = Authenticator(tokens, anonymous=AnonymousAccess(), identity=Identity())

    async def name(header: str) -> str:
        return (await authenticator.authenticate({"Authorization": header}, None)).name

    assert await name(" Bearer def more ") == "bob"
    assert await name("Bearer  def") == ANONYMOUS.name
    assert await name("Basic def") == ANONYMOUS.name


async def test_review_of_an_empty_token_is_anonymous(tokens: Tokens) -> None:
    known = await Authenticator(tokens, anonymous=AnonymousAccess(), identity=Identity()).review(" def", ["other"])

    assert known == AuthenticatedUser(ANONYMOUS, ("other",))
    assert (
        await Authenticator(tokens, anonymous=AnonymousAccess(enabled=False), identity=Identity()).review(" def", [])
        is None
    )
    with pytest.raises(Rejected):
        await Authenticator(tokens, anonymous=AnonymousAccess(), identity=Identity()).review("wrong", [])


@pytest.mark.row("opt.anonymous-auth")
async def test_only_those_without_any_credentials_are_anonymous(tokens: Tokens) -> None:
    async def code(headers: dict[str, str], *, anonymous: bool = True, certificate: str | None = None) -> int:
        authenticator = Authenticator(
            tokens,
            Identity(),
            anonymous=AnonymousAccess(anonymous),
            certificates=FixedAuthenticator(certificate),  # type: ignore[arg-type]
        )
        try:
            user = await authenticator.authenticate(headers, PRESENTED if certificate else None)
        except ApiError as error:
            return error.code
        assert user is ANONYMOUS
        return 200

    assert await code({}) == 200
    assert await code({"Authorization": "Basic abc"}) == 200
    assert await code({}, anonymous=False) == 401
    assert await code({"Authorization": "Bearer wrong"}) == 401
    assert await code({}, certificate="unknown authority") == 401


async def test_authenticated_users_are_in_system_authenticated(tokens: Tokens) -> None:
    user = await Authenticator(tokens, anonymous=AnonymousAccess(), identity=Identity()).authenticate(
        {"Authorization": "Bearer def"}, None
    )

    assert user.groups == ("system:authenticated",)


async def test_token_is_read_from_websocket_subprotocols(tokens: Tokens) -> None:
    hidden = "base64url.bearer.authorization.k8s.io." + base64.urlsafe_b64encode(b"def").decode().rstrip("=")
    authenticator = Authenticator(tokens, anonymous=AnonymousAccess(enabled=False), identity=Identity())

    async def passes(protocols: str) -> bool:
        try:
            return (await authenticator.authenticate({"Sec-WebSocket-Protocol": protocols}, None)).name == "bob"
        except ApiError:
            return False

    assert await passes(f"{hidden}, v5.channel.k8s.io")
    assert not await passes(hidden)
    assert not await passes(f"{hidden}, {hidden}, v5.channel.k8s.io")
    assert not await passes(f"{hidden}%, v5.channel.k8s.io")


async def test_successful_tokens_are_cached_and_failures_are_not() -> None:
    clock, method = FakeClock(), Counting(AuthenticatedUser(User("a"), API))
    tokens = Tokens([method], API, clock=clock)

    for _ in range(3):
        await tokens.authenticate("t")
    assert method.calls == 1
    await tokens.authenticate("t", ["https://api", "other"])
    assert method.calls == 2
    await clock.advance(REMEMBERED_SECONDS + 1)
    await tokens.authenticate("t")
    assert method.calls == 3
    method.response = "it has expired"
    for _ in range(2):
        with pytest.raises(Rejected, match="it has expired"):
            await tokens.authenticate("other")
    assert method.calls == 5


async def test_errors_are_reported_unless_another_method_succeeds() -> None:
    with pytest.raises(Rejected, match=r"^\[one, two\]$"):
        await Tokens([Counting("one"), Counting("two"), Counting("one"), Counting(None)], API).authenticate("t")
    with pytest.raises(Rejected, match="invalid bearer token"):
        await Tokens([Counting(None)], API).authenticate("t")

    assert (
        await Tokens([Counting("one"), Counting(AuthenticatedUser(User("b"), API))], API).authenticate("t")
    ).user.name == "b"


async def test_plain_tokens_have_only_the_api_audience(tokens: Tokens) -> None:
    assert (await tokens.authenticate("def", ["x", "https://api"])).audiences == API
    with pytest.raises(Rejected):
        await tokens.authenticate("def", ["x"])


async def test_oversized_token_is_not_processed() -> None:
    method = Counting(AuthenticatedUser(User("a"), API))

    with pytest.raises(Rejected):
        await Tokens([method], API).authenticate("x" * 100_000)
    assert method.calls == 0


async def test_authenticators_add_audit_annotations() -> None:
    reported: dict[str, str] = {}
    authenticator = Authenticator(
        Tokens([Counting(AuthenticatedUser(User("bob"), API, {"due": "yesterday"}))], API),
        anonymous=AnonymousAccess(enabled=False),
        identity=Identity(),
    )

    for _ in range(2):  # the second time from the cache
        reported.clear()
        await authenticator.authenticate({"Authorization": "Bearer t"}, None, reported)
        assert reported == {"due": "yesterday"}


async def test_invalid_and_missing_credentials_are_counted_separately(tokens: Tokens) -> None:
    authenticator = Authenticator(tokens, anonymous=AnonymousAccess(enabled=False), identity=Identity())

    for headers in ({"Authorization": "Bearer wrong"}, {"Authorization": "Bearer wrong"}, {}):
        with pytest.raises(ApiError):
            await authenticator.authenticate(headers, None)
    await authenticator.authenticate({"Authorization": "Bearer def"}, None)

    assert authenticator.rejected == {"failure": 1, "error": 2}


def test_token_is_not_a_negotiable_subprotocol() -> None:
    offered = "base64url.bearer.authorization.k8s.io.dG9rZW4, v4.channel.k8s.io , ,base64.binary.k8s.io"

    assert sub_protocols({"Sec-WebSocket-Protocol": offered}) == ["v4.channel.k8s.io", "base64.binary.k8s.io"]
    assert sub_protocols({}) == []
