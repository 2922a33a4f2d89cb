"""Contracts of the agent's HTTPS server: authenticators, authorizers and routes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from nodeagent.base.secret import Secret
from nodeagent.base.structs import MutableStruct, Struct
from nodeagent.errors import NodeAgentError

if TYPE_CHECKING:
    from aiohttp import web

ANONYMOUS = "system:anonymous"
GROUP_AUTHENTICATED = "system:authenticated"
GROUP_UNAUTHENTICATED = "system:unauthenticated"


class SentBytes(MutableStruct):
    """Number of response bytes sent, for the access log."""

    count: int = 0


SENT_BYTES: ContextVar[SentBytes] = ContextVar("sent_bytes")
"""Set while a request of a route with ``streams`` is handled; the handler updates the count."""

Handler = Callable[["web.Request"], Awaitable["web.StreamResponse"]]


class ServerConfigError(NodeAgentError):
    """The server cannot run safely as configured; the message names the setting. The agent runs without the server."""

    reason = "ServerConfigError"


class Unauthenticated(NodeAgentError):
    """A request carries an invalid credential; no further authenticator is called."""

    reason = "Unauthorized"


class AuthorizationFailed(NodeAgentError):
    """The authorizer could not decide, so the request is denied."""

    reason = "AuthorizationError"
    transient = True


@dataclass(frozen=True, slots=True)
class User:
    """The authenticated user of a request."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)


class RequestCredentials(Struct, frozen=True):
    """Credentials of a request."""

    certificate: Mapping[str, Any] | None = None
    """The client certificate in the format of ``ssl.SSLSocket.getpeercert``, verified against ``clientCAFile``."""
    token: Secret[str] | None = None
    """The bearer token, from the header or from a WebSocket subprotocol."""


class Authenticator(Protocol):
    """Authenticates one type of credential."""

    async def authenticate(self, credentials: RequestCredentials) -> User | None:
        """Return the user, or ``None`` if the request has no credential of this type.

        :param credentials: the credentials of the request.
        :raises Unauthenticated: the credential is invalid or cannot be verified.
        """
        ...


class AuthorizationAttributes(Struct, frozen=True):
    """An access to a subresource of this node (resource ``nodes``) that has to be authorized."""

    user: User
    verb: str
    subresource: str
    node: str


class Authorizer(Protocol):
    """Authorizes requests."""

    async def allows(self, attributes: AuthorizationAttributes) -> bool:
        """Return whether the access is allowed.

        :param attributes: user, verb and subresource of the request.
        :raises AuthorizationFailed: no decision is available now.
        """
        ...


class Exposure(StrEnum):
    """Ports on which a route is served, and its requirements."""

    READ_ONLY = "read-only"
    """Secure port, and ``readOnlyPort`` without authentication."""
    OPEN = "open"
    """Secure port, without authentication: files that contain no data of the node, such as a static page."""
    SECURE = "secure"
    """Secure port."""
    DEBUG = "debug"
    """Secure port while ``enableDebuggingHandlers`` is true; status 405 otherwise."""
    DEBUG_HIDDEN = "debug-hidden"
    """As ``DEBUG``, but with status 404."""


class Route(Struct, frozen=True):
    """An HTTP route of the agent's server.

    :param method: ``GET``, ``POST``, …; ``*`` is any.
    :param path: in aiohttp's syntax: ``/exec/{namespace}/{pod}/{container}``.
    :param subresources: subresources of ``nodes``; access to one of them is sufficient.
    :param verb: the verb to authorize; empty derives it from the method (GET get, POST create, …).
    :param rejection: if not empty, every request is rejected with status 405 and this text.
    :param streams: responses may be long-running; each request is logged with user, source, duration and bytes.
    :param fine_grained: replaces *subresources* if feature gate ``NodeAgentFineGrainedAuthz`` is enabled; empty: same.
    """

    method: str
    path: str
    handler: Handler
    exposure: Exposure = Exposure.SECURE
    subresources: Sequence[str] = ("proxy",)
    verb: str = ""
    rejection: str = ""
    streams: bool = False
    fine_grained: Sequence[str] = ()


class AccessStage(StrEnum):
    """Stage of an access, as in the audit log of the API server."""

    RECEIVED = "RequestReceived"
    """The request is authorized, and its handling starts."""
    COMPLETE = "ResponseComplete"
    """The response was sent, the stream has ended, or the request was rejected."""


class AccessRecord(Struct, frozen=True, kw_only=True):
    """A stage of an access to containers or logs."""

    id: str
    """Unique ID of the request, the same in both stages."""
    stage: AccessStage
    user: User | None
    """``None`` if the request was not authenticated."""
    source: str
    """IP address of the client."""
    user_agent: str
    method: str
    uri: str
    """Path and query, such as the command of an exec; at most 8 KiB."""
    subresource: str
    """Subresource of the node, such as ``exec``, ``attach``, ``portforward``, ``run``, ``log`` or ``checkpoint``."""
    verb: str
    """The authorized verb."""
    namespace: str = ""
    """Namespace, name and container of the pod; empty for logs of the system."""
    pod: str = ""
    container: str = ""
    received_at: datetime
    recorded_at: datetime
    status: int = 0
    """Status code of the response; 0 while there is none, and if the client closed the connection before."""
    sent_bytes: int = 0
    """Bytes of the response body or of the stream to the client."""
