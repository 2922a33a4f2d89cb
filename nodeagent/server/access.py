"""Authentication and authorization of requests to the secure port."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nodeagent.base.gobase64 import decode_url
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

TOKEN_PROTOCOL = "base64url.bearer.authorization.k8s.io."  # noqa: S105  the prefix of a subprotocol
_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Denied(Exception):
    """A rejected request: status and text of the response, and the user if authenticated."""

    def __init__(self, status: int, text: str, user: User | None = None) -> None:
        super().__init__(text)
        self.status, self.text, self.user = status, text, user


class Access:
    """Authenticates and authorizes requests.

    :param node: name of the node, the authorized resource.
    :param is_trusted: returns whether client certificates that a TLS context verified are still trusted.
    :param fine_grained: whether routes have specific subresources instead of ``proxy``.
    """

    def __init__(
        self,
        node: str,
        authenticators: Sequence[Authenticator],
        authorizer: Authorizer,
        is_trusted: Callable[[ssl.SSLContext], Awaitable[bool]],
        *,
        fine_grained: bool = False,
    ) -> None:
        self._node, self._authenticators, self._authorizer = node, authenticators, authorizer
        self._is_trusted, self._fine_grained = is_trusted, fine_grained

    async def check(self, request: web.Request, route: Route | None) -> User:
        """Return the user of an authorized request.

        :param route: the route; ``None`` for an unknown path, which is authorized like the others.
        :raises Denied: authentication or authorization failed.
        """
        user = await self._authenticate(RequestCredentials(await self._certificate(request), _bearer(request)))
        verb, subresources = required_access(request.method, route, fine_grained=self._fine_grained)
        try:
            for subresource in subresources:
                if await self._authorizer.allows(AuthorizationAttributes(user, verb, subresource, self._node)):
                    return user
        except AuthorizationFailed as error:
            _log.error("Authorization error", extra={**self._fields(user, verb, subresources), "err": str(error)})
            raise Denied(500, f"Authorization error ({self._text(user, verb, subresources)})", user) from error
        _log.log(v_level(2), "Forbidden", extra=self._fields(user, verb, subresources))
        raise Denied(403, f"Forbidden ({self._text(user, verb, subresources)})", user)

    def _fields(self, user: User, verb: str, subresources: Sequence[str]) -> dict[str, str]:
        return {"user": user.name, "verb": verb, "resource": "nodes", "subresource": " ".join(subresources)}

    def _text(self, user: User, verb: str, subresources: Sequence[str]) -> str:
        """Return the access in the format of the kubelet: with all subresources since fine-grained authorization."""
        part = f"subresource(s)=[{' '.join(subresources)}]" if self._fine_grained else f"subresource={subresources[0]}"
        return f"user={user.name}, verb={verb}, resource=nodes, {part}"

    async def _certificate(self, request: web.Request) -> Mapping[str, Any] | None:
        """Return the client certificate if the handshake of this connection, not of a resumed session, verified it."""
        transport = request.transport
        tls = transport.get_extra_info("ssl_object") if transport is not None else None
        if tls is None or tls.session_reused:
            return None
        certificate: Mapping[str, Any] | None = tls.getpeercert() or None
        if certificate is not None and not await self._is_trusted(tls.context):
            raise Denied(401, "Unauthorized")
        return certificate

    async def _authenticate(self, credentials: RequestCredentials) -> User:
        try:
            for authenticator in self._authenticators:
                user = await authenticator.authenticate(credentials)
                if user is not None:
                    return _with_group(user)
        except Unauthenticated as error:
            _log.log(v_level(2), "Unable to authenticate the request due to an error", extra={"err": str(error)})
        raise Denied(401, "Unauthorized")


def required_access(method: str, route: Route | None, *, fine_grained: bool = False) -> tuple[str, Sequence[str]]:
    """Return the verb, and the subresources; one of them must be authorized."""
    if route is None:
        return _VERBS.get(method, ""), ("proxy",)
    subresources = route.fine_grained if fine_grained and route.fine_grained else route.subresources
    return route.verb or _VERBS.get(method, ""), subresources


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
    """Return the token in a subprotocol; an invalid encoding is used unchanged, and fails authentication."""
    try:
        return Secret(decode_url(text).decode())
    except ValueError:
        return Secret(text)


def _with_group(user: User) -> User:
    if user.name == ANONYMOUS or GROUP_AUTHENTICATED in user.groups:
        return user
    return replace(user, groups=(*user.groups, GROUP_AUTHENTICATED))
