"""Bearer tokens: authenticators are called in order, and their results are cached briefly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from apiserver_stub.apimachinery.request import User
from apiserver_stub.authn.authenticators import AuthenticatedUser, Rejected, TokenAuthenticator
from nodeagent.base.aio import Clock, SystemClock

REMEMBERED_SECONDS = 10.0
EVERYONE = "system:authenticated"
_CACHE_SIZE = 4096
_MAX_TOKEN_BYTES = 64 << 10
_INVALID = "invalid bearer token"


class Tokens:
    """Calls *methods* in order; failures are not cached.

    The cache uses the interpreter's keyed hash of the complete token, so that the duration of a lookup does not depend
    on the similarity to a cached token. The cache is a plain dictionary, since each request looks a token up and
    ``cachetools.TTLCache`` takes three times as long.
    """

    def __init__(
        self, methods: Sequence[TokenAuthenticator], api_audiences: Sequence[str], *, clock: Clock | None = None
    ) -> None:
        self._methods, self.api_audiences = list(methods), tuple(api_audiences)
        self._clock = clock or SystemClock()
        self._cache: dict[tuple[str, tuple[str, ...]], tuple[float, AuthenticatedUser]] = {}

    async def authenticate(self, token: str, audiences: Sequence[str] = ()) -> AuthenticatedUser:
        """Return the user of *token* for one of *audiences* (default: those of the API).

        :raises Rejected: no authenticator accepts the token.
        """
        requested = tuple(audiences) or self.api_audiences
        key = (token, requested)
        cached = self._cache.get(key)
        if cached is not None:
            if cached[0] > self._clock.now():
                return cached[1]
            del self._cache[key]
        found = await self._authenticate(token, requested)
        self._remember(key, found)
        return found

    async def _authenticate(self, token: str, audiences: tuple[str, ...]) -> AuthenticatedUser:
        problems: list[str] = []
        for method in self._methods if len(token) <= _MAX_TOKEN_BYTES else ():
            try:
                found = await method.authenticate(token, audiences)
            except Rejected as error:
                problems.append(str(error))
                continue
            if found is not None:
                return replace(found, user=authenticated(found.user))
        unique = list(dict.fromkeys(problems)) or [_INVALID]
        raise Rejected(unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]")

    def _remember(self, key: tuple[str, tuple[str, ...]], found: AuthenticatedUser) -> None:
        if len(self._cache) >= _CACHE_SIZE:
            del self._cache[next(iter(self._cache))]
        self._cache[key] = (self._clock.now() + REMEMBERED_SECONDS, found)


def authenticated(user: User) -> User:
    """Return *user* with the group of all authenticated users."""
    if EVERYONE in user.groups or user.name == "system:anonymous":
        return user
    return replace(user, groups=(*user.groups, EVERYONE))
