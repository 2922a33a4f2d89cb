"""What the agent's own server is made of: who asks, whether they may, and what is served."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from nodeagent.base.secret import Secret
from nodeagent.errors import NodeAgentError

if TYPE_CHECKING:
    from aiohttp import web

ANONYMOUS = "system:anonymous"
GROUP_AUTHENTICATED = "system:authenticated"
GROUP_UNAUTHENTICATED = "system:unauthenticated"


@dataclass(slots=True)
class SentBytes:
    """How much of an answer has been sent, for the access log."""

    count: int = 0


SENT_BYTES: ContextVar[SentBytes] = ContextVar("sent_bytes")
"""Set while a request of a route that ``streams`` is handled; its handler keeps the count current."""

Handler = Callable[["web.Request"], Awaitable["web.StreamResponse"]]


class ServerConfigError(NodeAgentError):
    """The server cannot be run safely as configured; the text says what to set. The agent goes on without it."""

    reason = "ServerConfigError"


class Unauthenticated(NodeAgentError):
    """A request carries a credential that is no good; no other authenticator is asked."""

    reason = "Unauthorized"


class AuthorizationFailed(NodeAgentError):
    """Nobody could say whether a request is allowed; it is not."""

    reason = "AuthorizationError"
    transient = True


@dataclass(frozen=True, slots=True)
class User:
    """Who asks."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class RequestCredentials:
    """What a client shows of itself."""

    certificate: Mapping[str, Any] | None = None
    """Its certificate as ``ssl.SSLSocket.getpeercert`` gives it; already verified against ``clientCAFile``."""
    token: Secret[str] | None = None
    """The bearer token, from the header or from a WebSocket sub-protocol."""


class Authenticator(Protocol):
    """Knows one kind of credential."""

    async def authenticate(self, presented: RequestCredentials) -> User | None:
        """Return who shows this, or ``None`` when the kind of credential is not there.

        :raises Unauthenticated: the credential is there and is no good, or cannot be checked.
        """
        ...


@dataclass(frozen=True, slots=True)
class AuthorizationAttributes:
    """Whether *user* may do *verb* on a part of this node (resource ``nodes``)."""

    user: User
    verb: str
    subresource: str
    node: str


class Authorizer(Protocol):
    """Decides what users may do."""

    async def allows(self, question: AuthorizationAttributes) -> bool:
        """Return whether it is allowed.

        :raises AuthorizationFailed: nobody can tell now.
        """
        ...


class Exposure(StrEnum):
    """Where a path is served."""

    READ_ONLY = "read-only"
    """On the secured port, and on ``readOnlyPort`` without authentication."""
    OPEN = "open"
    """On the secured port, for everyone: files that tell nothing about the node, such as those of a page."""
    SECURE = "secure"
    """On the secured port."""
    DEBUG = "debug"
    """On the secured port while ``enableDebuggingHandlers`` is true, else answered with 405."""
    DEBUG_HIDDEN = "debug-hidden"
    """As ``DEBUG``, but answered with 404."""


@dataclass(frozen=True, slots=True)
class Route:
    """One path with what it needs.

    :param method: ``GET``, ``POST``, …; ``*`` is any.
    :param path: in aiohttp's notation: ``/exec/{namespace}/{pod}/{container}``.
    :param subresources: of ``nodes``; the right to any of them is enough.
    :param verb: what has to be allowed; empty follows from the method (GET get, POST create, …).
    :param refusal: when not empty, every request is answered with 405 and this text.
    :param streams: answers may go on for long; each request is logged with user, source, duration and bytes.
    """

    method: str
    path: str
    handler: Handler
    exposure: Exposure = Exposure.SECURE
    subresources: Sequence[str] = ("proxy",)
    verb: str = ""
    refusal: str = ""
    streams: bool = False
