"""Contract tests for authenticators, the authorizer and routes of the agent's HTTPS server, and for local queries."""

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
    """Contract of :class:`Authenticator`. Override the fixtures ``authenticator``, ``good`` and ``bad``."""

    @pytest.fixture
    async def authenticator(self) -> AsyncIterator[Authenticator]:
        """The implementation to test."""
        raise NotImplementedError
        yield

    @pytest.fixture
    def good(self) -> RequestCredentials:
        """Valid credentials."""
        raise NotImplementedError

    @pytest.fixture
    def bad(self) -> RequestCredentials:
        """Invalid credentials of the supported kind."""
        raise NotImplementedError

    async def test_valid_credentials_return_the_same_user(
        self, authenticator: Authenticator, good: RequestCredentials
    ) -> None:
        first = await authenticator.authenticate(good)
        assert first is not None and first.name
        assert await authenticator.authenticate(good) == first

    async def test_concurrent_requests_return_the_same_user(
        self, authenticator: Authenticator, good: RequestCredentials
    ) -> None:
        users = await asyncio.gather(*(authenticator.authenticate(good) for _ in range(5)))
        assert len(set(users)) == 1

    async def test_invalid_credentials_raise_without_revealing_the_token(
        self, authenticator: Authenticator, bad: RequestCredentials
    ) -> None:
        with pytest.raises(Unauthenticated) as caught:
            await authenticator.authenticate(bad)
        if bad.token is not None:
            assert bad.token.reveal() not in str(caught.value)


class AuthorizerContract:
    """Contract of :class:`Authorizer`. Override the fixtures ``authorizer``, ``allowed`` and ``denied``."""

    @pytest.fixture
    async def authorizer(self) -> AsyncIterator[Authorizer]:
        """The implementation to test."""
        raise NotImplementedError
        yield

    @pytest.fixture
    def allowed(self) -> AuthorizationAttributes:
        """Attributes of an allowed request."""
        raise NotImplementedError

    @pytest.fixture
    def denied(self) -> AuthorizationAttributes | None:
        """Attributes of a denied request; ``None`` if the authorizer allows all requests."""
        return None

    async def test_allowed_request_is_allowed_repeatedly(
        self, authorizer: Authorizer, allowed: AuthorizationAttributes
    ) -> None:
        assert [await authorizer.allows(allowed) for _ in range(2)] == [True, True]

    async def test_denied_request_is_denied_repeatedly(
        self, authorizer: Authorizer, denied: AuthorizationAttributes | None
    ) -> None:
        if denied is not None:
            assert [await authorizer.allows(denied) for _ in range(2)] == [False, False]

    async def test_concurrent_requests_are_decided_independently(
        self, authorizer: Authorizer, allowed: AuthorizationAttributes, denied: AuthorizationAttributes | None
    ) -> None:
        requests = [allowed, denied or allowed, allowed]
        decisions = await asyncio.gather(*(authorizer.allows(request) for request in requests))
        assert decisions == [True, denied is None, True]


class RouteContract:
    """Contract of :class:`Route`. Override the fixture ``routes`` with all routes of a plugin."""

    @pytest.fixture
    def routes(self) -> Sequence[Route]:
        """The implementations to test."""
        raise NotImplementedError

    def test_method_and_path_are_unique(self, routes: Sequence[Route]) -> None:
        keys = [(route.method, route.path) for route in routes]
        assert len(set(keys)) == len(keys) > 0

    def test_method_is_supported_and_path_is_absolute(self, routes: Sequence[Route]) -> None:
        assert [r for r in routes if r.method not in _METHODS or not r.path.startswith("/")] == []

    def test_handler_is_async(self, routes: Sequence[Route]) -> None:
        assert [r.path for r in routes if not inspect.iscoroutinefunction(_plain(r.handler))] == []

    def test_route_requires_permission_for_a_subresource(self, routes: Sequence[Route]) -> None:
        assert [r.path for r in routes if not all(r.subresources) or not r.subresources] == []

    def test_read_only_port_has_no_streaming_routes(self, routes: Sequence[Route]) -> None:
        assert [r.path for r in routes if r.exposure is Exposure.READ_ONLY and r.streams] == []


class LocalQueryContract:
    """Contract of :class:`LocalQuery`. Override the fixtures ``query`` and ``arguments``."""

    @pytest.fixture
    def query(self) -> LocalQuery:
        """The implementation to test."""
        raise NotImplementedError

    @pytest.fixture
    def arguments(self) -> bytes:
        """Valid arguments, as JSON."""
        return b"{}"

    def test_name_consists_of_words_separated_by_dots(self, query: LocalQuery) -> None:
        assert re.fullmatch(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*", query.name)

    async def test_result_can_be_encoded_as_json(self, query: LocalQuery, arguments: bytes) -> None:
        result = await query.handler(msgspec.json.decode(arguments, type=query.request))
        assert msgspec.json.decode(msgspec.json.encode(result)) is not None

    async def test_arguments_of_another_type_raise(self, query: LocalQuery) -> None:
        with pytest.raises((msgspec.ValidationError, ValueError, NodeAgentError)):
            await query.handler(msgspec.json.decode(b'"something else"', type=query.request))


def _plain(handler: object) -> object:
    """Return the function of a ``functools.partial`` or of an object with ``__call__``."""
    while hasattr(handler, "func"):
        handler = handler.func
    return handler if inspect.isroutine(handler) else getattr(handler, "__call__", handler)  # noqa: B004
