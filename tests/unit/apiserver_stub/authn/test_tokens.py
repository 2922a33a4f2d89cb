"""Tests for the order of token authenticators and the cache of their results."""

from __future__ import annotations

import pytest

from apiserver_stub.apimachinery.request import User
from apiserver_stub.authn import tokens
from apiserver_stub.authn.authenticators import AuthenticatedUser, Rejected
from apiserver_stub.authn.tokens import REMEMBERED_SECONDS, Tokens, authenticated
from nodeagent.testing import FakeClock


class Method:
    """Authenticator of one token; it rejects *bad* ones."""

    def __init__(self, name: str, *bad: str) -> None:
        self.name, self.bad = name, bad
        self.calls: list[tuple[str, tuple[str, ...]]] = []

    async def authenticate(self, token: str, audiences: tuple[str, ...]) -> AuthenticatedUser | None:
        self.calls.append((token, audiences))
        if token in self.bad:
            raise Rejected(f"{self.name} rejects it")
        return AuthenticatedUser(User(self.name), audiences) if token == self.name else None


async def test_first_method_that_recognizes_a_token_wins() -> None:
    methods = [Method("a"), Method("b", "a")]
    found = await Tokens(methods, ["api"]).authenticate("b")
    assert (found.user.name, found.user.groups, found.audiences) == ("b", ("system:authenticated",), ("api",))
    assert (await Tokens(methods, ["api"]).authenticate("a", ["x"])).audiences == ("x",)
    assert methods[1].calls == [("b", ("api",))]


async def test_rejections_are_reported_together() -> None:
    for bad, expected in (
        (((), ()), "invalid bearer token"),
        ((("t",), ()), "a rejects it"),
        ((("t",), ("t",)), "[a rejects it, b rejects it]"),
    ):
        found = Tokens([Method("a", *bad[0]), Method("b", *bad[1])], ["api"])
        with pytest.raises(Rejected) as error:
            await found.authenticate("t")
        assert str(error.value) == expected, bad
    same = Tokens([Method("a", "t"), Method("a", "t")], ["api"])
    with pytest.raises(Rejected, match=r"^a rejects it$"):
        await same.authenticate("t")


async def test_long_tokens_are_not_evaluated() -> None:
    limit = 64 << 10
    method = Method("x" * limit, "x" * (limit + 1))
    found = Tokens([method], ["api"])
    await found.authenticate("x" * limit)
    with pytest.raises(Rejected, match="invalid bearer token"):
        await found.authenticate("x" * (limit + 1))
    assert len(method.calls) == 1


async def test_results_are_cached_briefly_by_audience() -> None:
    clock, method = FakeClock(), Method("a")
    found = Tokens([method], ["api"], clock=clock)
    for seconds, audiences, calls in (
        (0, [], 1),
        (0, ["api"], 1),
        (0, ["x"], 2),
        (REMEMBERED_SECONDS - 1, [], 2),
        (1, [], 3),
        (0, [], 3),
    ):
        await clock.advance(seconds)
        await found.authenticate("a", audiences)
        assert len(method.calls) == calls, (seconds, audiences)


async def test_oldest_result_is_evicted_from_a_full_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_CACHE_SIZE", 2)
    method = Method("a")
    found = Tokens([method], ["api"], clock=FakeClock())
    for audience, calls in (("1", 1), ("2", 2), ("1", 2), ("3", 3), ("2", 3), ("1", 4)):
        await found.authenticate("a", [audience])
        assert len(method.calls) == calls, audience


def test_group_of_authenticated_users_is_added_once() -> None:
    for user, groups in (
        (User("a", groups=("g",)), ("g", "system:authenticated")),
        (User("a", groups=("system:authenticated",)), ("system:authenticated",)),
        (User("system:anonymous"), ()),
    ):
        assert authenticated(user).groups == groups, user
