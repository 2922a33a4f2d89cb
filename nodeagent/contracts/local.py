"""What commands on the same machine may ask the running agent: one socket, named questions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec

LOCAL_SOCKET = "nodeagent.sock"
"""Under the agent's root directory. A connection carries one :class:`LocalRequest` as a line of JSON and gets one
:class:`LocalResponse` in the same form. Only root, or the user that runs the agent, is answered."""


@dataclass(frozen=True, slots=True)
class LocalQuery:
    """Something that the agent can be asked.

    :param name: ``why``, ``evict.plan``; those of other plugins begin with the plugin's name and a dot.
    :param request: the type that the arguments are decoded to, a ``msgspec`` struct.
    :param handler: gets the arguments and returns something that ``msgspec`` encodes; a ``ValueError`` or
        ``NodeAgentError`` is told to whoever asks.
    """

    name: str
    request: type
    handler: Callable[[Any], Awaitable[Any]]


class NoArguments(msgspec.Struct, frozen=True):
    """The arguments of a question that takes none."""


class LocalRequest(msgspec.Struct, frozen=True):
    """What goes to the agent: the name of a question and its arguments."""

    question: str
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


class LocalResponse(msgspec.Struct, frozen=True):
    """What comes back: an answer, or in *error* why there is none."""

    answer: msgspec.Raw = msgspec.Raw(b"null")
    error: str = ""
