"""The order of authentication: client certificate, bearer token (file, then service accounts), anonymous."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from apiserver_stub.request import ANONYMOUS, User
from apiserver_stub.status import unauthorized

_CACHE_SECONDS = 10.0
_CACHE_SIZE = 4096
_EVERYONE = "system:authenticated"


class TokenMethod(Protocol):
    """Knows the callers of some bearer tokens."""

    def authenticate(self, token: str, audiences: Sequence[str] = ()) -> User | None:
        """Return whose *token* it is, or ``None`` when it is not for this method or no good."""
        ...


class Authenticator:
    """Finds the caller of a request; *anonymous* lets those without credentials in under a name of their own."""

    def __init__(self, methods: Sequence[TokenMethod], *, anonymous: bool) -> None:
        self._methods, self._anonymous = methods, anonymous
        self._cache: dict[str, tuple[float, User]] = {}

    def authenticate(self, headers: Mapping[str, str], certificate: Mapping[str, Any] | None) -> User:
        """Return the caller.

        :raises ApiError: 401, the credentials are no good, or there are none and anonymous callers are not let in.
        """
        if certificate and (user := user_of_certificate(certificate)):
            return user
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and token.strip():
            found = self.user_of_token(token.strip())
            if found is None:
                raise unauthorized()
            return found
        if self._anonymous:
            return ANONYMOUS
        raise unauthorized()

    def user_of_token(self, token: str, audiences: Sequence[str] = ()) -> User | None:
        """Return whose *token* it is, for one of *audiences* if some are given."""
        now = time.monotonic()
        key = token if not audiences else f"{token} {' '.join(audiences)}"
        cached = self._cache.get(key)
        if cached is not None and cached[0] > now:
            return cached[1]
        for method in self._methods:
            user = method.authenticate(token, audiences)
            if user is not None:
                user = _authenticated(user)
                if len(self._cache) >= _CACHE_SIZE:
                    self._cache.clear()
                self._cache[key] = (now + _CACHE_SECONDS, user)
                return user
        return None


def user_of_certificate(certificate: Mapping[str, Any]) -> User | None:
    """Return the user that a verified client certificate names: CN, with every O as a group."""
    name, groups = "", []
    for relative in certificate.get("subject", ()):
        for attribute, value in relative:
            if attribute == "commonName":
                name = value
            elif attribute == "organizationName":
                groups.append(value)
    return _authenticated(User(name, groups=tuple(groups))) if name else None


def _authenticated(user: User) -> User:
    return user if _EVERYONE in user.groups else replace(user, groups=(*user.groups, _EVERYONE))
