"""What a method of authentication is: it knows some callers, has nothing to say, or refuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from apiserver_stub.apimachinery.request import User


class Rejected(Exception):
    """Credentials that are for a method and are no good; the text is for logs and token reviews."""


@dataclass(frozen=True, slots=True)
class AuthenticatedUser:
    """A caller, and for which of the audiences asked about the token is good."""

    user: User
    audiences: tuple[str, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    """What audit events say of the token."""


class TokenAuthenticator(Protocol):
    """Knows the callers of some bearer tokens."""

    async def authenticate(self, token: str, audiences: Sequence[str]) -> AuthenticatedUser | None:
        """Return whose *token* it is, or ``None`` when it is not for this method.

        :param audiences: one of them must be meant; never empty.
        :raises Rejected: it is for this method and is no good.
        """
        ...


class UserMethod(Protocol):
    """Knows users and nothing of audiences."""

    async def user_of(self, token: str) -> User | None:
        """Return whose *token* it is, or ``None`` when it is not for this method.

        :raises Rejected: it is for this method and is no good.
        """
        ...


class ApiAudienceAuthenticator:
    """Makes *method* one whose tokens are good for the audiences of the API and for no others."""

    def __init__(self, method: UserMethod, api_audiences: Sequence[str]) -> None:
        self._method, self._api_audiences = method, tuple(api_audiences)

    async def authenticate(self, token: str, audiences: Sequence[str]) -> AuthenticatedUser | None:
        good_for = tuple(audience for audience in self._api_audiences if audience in audiences)
        if not good_for:
            return None
        user = await self._method.user_of(token)
        return None if user is None else AuthenticatedUser(user, good_for)
