"""Authenticator protocols: an authenticator recognizes, ignores or rejects credentials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import field

from apiserver_stub.apimachinery.request import User
from nodeagent.base.structs import Struct


class Rejected(Exception):
    """Invalid credentials of an authenticator; the message appears in logs and token reviews."""


class AuthenticatedUser(Struct, frozen=True):
    """An authenticated user, and the requested audiences for which the token is valid."""

    user: User
    audiences: tuple[str, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Audit annotations of the token."""


class TokenAuthenticator(Protocol):
    """Authenticates bearer tokens."""

    async def authenticate(self, token: str, audiences: Sequence[str]) -> AuthenticatedUser | None:
        """Return the user of *token*, or ``None`` if it belongs to another authenticator.

        :param audiences: the token must be valid for one of them; never empty.
        :raises Rejected: the token belongs to this authenticator and is invalid.
        """
        ...


class UserMethod(Protocol):
    """Authenticates bearer tokens without audiences."""

    async def user_of(self, token: str) -> User | None:
        """Return the user of *token*, or ``None`` if it belongs to another authenticator.

        :raises Rejected: the token belongs to this authenticator and is invalid.
        """
        ...


class ApiAudienceAuthenticator:
    """Restricts the tokens of *method* to the audiences of the API."""

    def __init__(self, method: UserMethod, api_audiences: Sequence[str]) -> None:
        self._method, self._api_audiences = method, tuple(api_audiences)

    async def authenticate(self, token: str, audiences: Sequence[str]) -> AuthenticatedUser | None:
        good_for = tuple(audience for audience in self._api_audiences if audience in audiences)
        if not good_for:
            return None
        user = await self._method.user_of(token)
        return None if user is None else AuthenticatedUser(user, good_for)
