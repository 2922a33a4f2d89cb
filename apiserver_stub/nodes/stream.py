"""Streams: requests whose responses come from a node agent, a pod or a service."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from nodeagent.base.structs import MutableStruct

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Query, RequestInfo
    from apiserver_stub.nodes.agents import NodeAgents
    from apiserver_stub.storage import Store
    from apiserver_stub.transport.http import HttpRequest
    from apiserver_stub.transport.rendered import Rendered


class Stream(MutableStruct):
    """A request whose response is a stream; the handler calls :meth:`begin` before it starts the response."""

    http: HttpRequest
    info: RequestInfo
    query: Query
    agents: NodeAgents
    store: Store
    on_begin: Callable[[int], Awaitable[None]] | None = None
    """Called with the status code when the response starts."""
    started: bool = False
    code: int = 200

    async def begin(self, code: int) -> None:
        """Record that the response is started; from now on, errors close the connection."""
        self.started, self.code = True, code
        if self.on_begin is not None:
            await self.on_begin(code)


StreamHandler = Callable[[Stream], Awaitable["Rendered | None"]]
"""Handler of a stream, which sends the response, or returns a complete one to send.

:raises ApiError: the request is rejected before the response starts.
"""
