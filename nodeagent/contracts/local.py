"""Local queries: named requests that commands on the same host send to the agent over a Unix socket."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from nodeagent.base.structs import Struct

LOCAL_SOCKET = "nodeagent.sock"
"""Name of the socket in the agent's root directory. A client sends one :class:`LocalRequest` as a line of JSON and
receives one :class:`LocalResponse` in the same form. Only root and the user that runs the agent have access."""


class LocalQuery(Struct, frozen=True):
    """A query that the agent supports.

    :param name: such as ``why`` or ``evict.plan``; the names of third-party queries start with the plugin's name and a
        dot.
    :param request: the type that the arguments are decoded to, a ``msgspec`` struct.
    :param handler: called with the arguments; returns an object that ``msgspec`` can encode. A ``ValueError`` or
        ``NodeAgentError`` is returned to the client as an error.
    :param seconds: time that the handler may take in addition to the limit of all queries.
    """

    name: str
    request: type
    handler: Callable[[Any], Awaitable[Any]]
    seconds: float = 0.0


class NoArguments(msgspec.Struct, frozen=True):
    """Empty arguments."""


class LocalRequest(msgspec.Struct, frozen=True):
    """Request of a client: name and arguments of a query."""

    question: str
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


class LocalResponse(msgspec.Struct, frozen=True):
    """Response of the agent: a result, or an error message in *error*."""

    answer: msgspec.Raw = msgspec.Raw(b"null")  # wording: ok
    error: str = ""
