"""What everything does that the agent's own server is made of, and what answers commands on this machine."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import AsyncIterator, Sequence

import msgspec
import pytest

from nodeagent.contracts.local import LocalQuery
from nodeagent.contracts.server import (
    Authenticator,
    AuthorizationAttributes,
    Authorizer,
    Exposure,
    RequestCredentials,
    Route,
    Unauthenticated,
)
from nodeagent.errors import NodeAgentError

_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "*"}


class AuthenticatorContract:
    """Fixtures to provide: ``authenticator``, and the credentials ``good`` and ``bad``."""

    @pytest.fixture
    async def authenticator(self) -> AsyncIterator[Authenticator]:
        """The implementation."""
        raise NotImplementedError
        yield

    @pytest.fixture
    def good(self) -> RequestCredentials:
        """What a user shows whom it knows."""
        raise NotImplementedError

    @pytest.fixture
    def bad(self) -> RequestCredentials:
        """What is of its kind and no good."""
        raise NotImplementedError

    async def test_knows_its_users_each_time(self, authenticator: Authenticator, good: RequestCredentials) -> None:
        first = await authenticator.authenticate(good)
        assert first is not None and first.name
        assert await authenticator.authenticate(good) == first

    async def test_at_once_too(self, authenticator: Authenticator, good: RequestCredentials) -> None:
        users = await asyncio.gather(*(authenticator.authenticate(good) for _ in range(5)))
        assert len(set(users)) == 1

    async def test_refuses_what_is_no_good_without_repeating_it(
        self, authenticator: Authenticator, bad: RequestCredentials
    ) -> None:
        with pytest.raises(Unauthenticated) as caught:
            await authenticator.authenticate(bad)
        if bad.token is not None:
            assert bad.token.reveal() not in str(caught.value)


class AuthorizerContract:
    """Fixtures to provide: ``authorizer`` and what is ``allowed``; ``denied`` where it can refuse anything."""

    @pytest.fixture
    async def authorizer(self) -> AsyncIterator[Authorizer]:
        """The implementation."""
        raise NotImplementedError
        yield

    @pytest.fixture
    def allowed(self) -> AuthorizationAttributes:
        """Something that is allowed."""
        raise NotImplementedError

    @pytest.fixture
    def denied(self) -> AuthorizationAttributes | None:
        """Something that is not; ``None`` for one that allows everything."""
        return None

    async def test_lets_through_what_is_allowed_each_time(
        self, authorizer: Authorizer, allowed: AuthorizationAttributes
    ) -> None:
        assert [await authorizer.allows(allowed) for _ in range(2)] == [True, True]

    async def test_refuses_what_is_not_each_time(
        self, authorizer: Authorizer, denied: AuthorizationAttributes | None
    ) -> None:
        if denied is not None:
            assert [await authorizer.allows(denied) for _ in range(2)] == [False, False]

    async def test_answers_many_at_once(
        self, authorizer: Authorizer, allowed: AuthorizationAttributes, denied: AuthorizationAttributes | None
    ) -> None:
        questions = [allowed, denied or allowed, allowed]
        answers = await asyncio.gather(*(authorizer.allows(question) for question in questions))
        assert answers == [True, denied is None, True]


class RouteContract:
    """Fixture to provide: ``routes``, all that one plugin brings."""

    @pytest.fixture
    def routes(self) -> Sequence[Route]:
        """The implementation."""
        raise NotImplementedError

    def test_a_path_and_a_method_are_served_once(self, routes: Sequence[Route]) -> None:
        places = [(route.method, route.path) for route in routes]
        assert len(set(places)) == len(places) > 0

    def test_each_has_a_known_method_and_a_whole_path(self, routes: Sequence[Route]) -> None:
        assert [r for r in routes if r.method not in _METHODS or not r.path.startswith("/")] == []

    def test_each_has_a_handler_that_is_awaited(self, routes: Sequence[Route]) -> None:
        assert [r.path for r in routes if not inspect.iscoroutinefunction(_plain(r.handler))] == []

    def test_nobody_passes_without_a_right(self, routes: Sequence[Route]) -> None:
        assert [r.path for r in routes if not all(r.subresources) or not r.subresources] == []

    def test_nothing_streams_to_people_nobody_knows(self, routes: Sequence[Route]) -> None:
        assert [r.path for r in routes if r.exposure is Exposure.READ_ONLY and r.streams] == []


class LocalQueryContract:
    """Fixtures to provide: ``question`` and ``arguments``."""

    @pytest.fixture
    def question(self) -> LocalQuery:
        """The implementation."""
        raise NotImplementedError

    @pytest.fixture
    def arguments(self) -> bytes:
        """Arguments that can be answered, as JSON."""
        return b"{}"

    def test_has_a_name_in_words_and_dots(self, question: LocalQuery) -> None:
        assert re.fullmatch(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*", question.name)

    async def test_answers_with_something_that_can_be_sent(self, question: LocalQuery, arguments: bytes) -> None:
        answer = await question.handler(msgspec.json.decode(arguments, type=question.request))
        assert msgspec.json.decode(msgspec.json.encode(answer)) is not None

    async def test_takes_no_arguments_of_another_kind(self, question: LocalQuery) -> None:
        with pytest.raises((msgspec.ValidationError, ValueError, NodeAgentError)):
            await question.handler(msgspec.json.decode(b'"something else"', type=question.request))


def _plain(handler: object) -> object:
    """Return the function under ``functools.partial`` and objects with ``__call__``."""
    while hasattr(handler, "func"):
        handler = handler.func
    return handler if inspect.isroutine(handler) else getattr(handler, "__call__", handler)  # noqa: B004
