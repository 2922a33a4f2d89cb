"""Who asks, and may they: what stands before every path of the secured port."""

from __future__ import annotations

import base64
import binascii
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nodeagent.base.logging import v_level
from nodeagent.base.secret import Secret
from nodeagent.contracts.server import (
    ANONYMOUS,
    GROUP_AUTHENTICATED,
    Authenticator,
    AuthorizationAttributes,
    AuthorizationFailed,
    Authorizer,
    RequestCredentials,
    Route,
    Unauthenticated,
    User,
)

if TYPE_CHECKING:
    from aiohttp import web

_log = logging.getLogger(__name__)

TOKEN_PROTOCOL = "base64url.bearer.authorization.k8s.io."  # noqa: S105  the prefix of a sub-protocol
_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Denied(Exception):
    """A request that is not let through: its answer, and whose it is where that is known."""

    def __init__(self, status: int, text: str, user: str = "") -> None:
        super().__init__(text)
        self.status, self.text, self.user = status, text, user


class Access:
    """Lets a request through, or says why not.

    :param node: the name that rights are given on.
    :param believes: whether what the TLS context of a connection verified still counts.
    """

    def __init__(
        self,
        node: str,
        authenticators: Sequence[Authenticator],
        authorizer: Authorizer,
        believes: Callable[[ssl.SSLContext], Awaitable[bool]],
    ) -> None:
        self._node, self._authenticators, self._authorizer = node, authenticators, authorizer
        self._believes = believes

    async def check(self, request: web.Request, route: Route | None) -> User:
        """Return who asks, once it is clear that they may.

        :param route: the path's route; ``None`` for a path that does not exist, which is guarded like the others.
        :raises Denied: they may not, or nobody knows them.
        """
        user = await self._who(RequestCredentials(await self._certificate(request), _bearer(request)))
        verb, subresources = demands(request.method, route)
        try:
            for subresource in subresources:
                if await self._authorizer.allows(AuthorizationAttributes(user, verb, subresource, self._node)):
                    return user
        except AuthorizationFailed as error:
            _log.error("Request cannot be authorized", extra={"user": user.name, "err": str(error)})
            text = f"Authorization error (user={user.name}, verb={verb}, resource=nodes, subresource={subresources[0]})"
            raise Denied(500, text, user.name) from error
        _log.log(v_level(2), "Forbidden", extra={"user": user.name, "verb": verb, "subresource": subresources[0]})
        text = f"Forbidden (user={user.name}, verb={verb}, resource=nodes, subresource={subresources[0]})"
        raise Denied(403, text, user.name)

    async def _certificate(self, request: web.Request) -> Mapping[str, Any] | None:
        """Return the client's certificate, believed only when this very connection's handshake proved it."""
        transport = request.transport
        tls = transport.get_extra_info("ssl_object") if transport is not None else None
        if tls is None or tls.session_reused:
            return None
        certificate: Mapping[str, Any] | None = tls.getpeercert() or None
        if certificate is not None and not await self._believes(tls.context):
            raise Denied(401, "Unauthorized")
        return certificate

    async def _who(self, shown: RequestCredentials) -> User:
        try:
            for authenticator in self._authenticators:
                user = await authenticator.authenticate(shown)
                if user is not None:
                    return _with_group(user)
        except Unauthenticated as error:
            _log.log(v_level(2), "Unauthorized", extra={"err": str(error)})
        raise Denied(401, "Unauthorized")


def demands(method: str, route: Route | None) -> tuple[str, Sequence[str]]:
    """Return the verb and the subresources of which one is enough."""
    if route is None:
        return _VERBS.get(method, ""), ("proxy",)
    return route.verb or _VERBS.get(method, ""), route.subresources


def _bearer(request: web.Request) -> Secret[str] | None:
    kind, _, token = request.headers.get("Authorization", "").strip().partition(" ")
    if kind.lower() == "bearer" and token.strip():
        return Secret(token.strip())
    for value in request.headers.getall("Sec-WebSocket-Protocol", ()):
        for name in value.split(","):
            if name.strip().startswith(TOKEN_PROTOCOL):
                return _from_protocol(name.strip().removeprefix(TOKEN_PROTOCOL))
    return None


def _from_protocol(text: str) -> Secret[str]:
    """Return the token in a sub-protocol; one that is not encoded as it should be is a token nobody knows."""
    try:
        return Secret(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode())
    except (binascii.Error, UnicodeDecodeError):
        return Secret(text)


def _with_group(user: User) -> User:
    if user.name == ANONYMOUS or GROUP_AUTHENTICATED in user.groups:
        return user
    return replace(user, groups=(*user.groups, GROUP_AUTHENTICATED))
