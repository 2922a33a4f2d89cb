"""Connections of the HTTP client for node agents. Imported with the first connection, since ``aiohttp`` is large."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection

if TYPE_CHECKING:
    from collections.abc import Callable

    from apiserver_stub.nodes.endpoint import Endpoint

P = TypeVar("P", bound=asyncio.BaseProtocol)


class Connect(Protocol):
    """Function that connects a protocol to an endpoint."""

    async def __call__(self, factory: Callable[[], P], endpoint: Endpoint) -> P:
        """Return a protocol of *factory*, connected."""
        ...


class AgentConnector(aiohttp.BaseConnector):
    """Connects with *connect*, with a new connection per session.

    The request has no ``Connection: close``: the end of the response could be lost if a slow client pauses reading from
    the agent while the agent closes the connection.
    """

    def __init__(self, connect: Connect, endpoint: Endpoint) -> None:
        super().__init__(limit=0)
        self._connect, self._endpoint = connect, endpoint

    async def connect(self, req: aiohttp.ClientRequest, traces: Any, timeout: aiohttp.ClientTimeout) -> Connection:
        """Return a new connection; aiohttp closes it with the response."""
        loop = asyncio.get_running_loop()
        protocol = await self._connect(lambda: ResponseHandler(loop=loop), self._endpoint)
        return Connection(self, req.connection_key, protocol, loop)
