"""A request whose answer is a stream from elsewhere: what its handlers work with, and its end."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from aiohttp import web

from apiserver_stub.transport import response_writer

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Query, RequestInfo
    from apiserver_stub.audit.context import AuditContext
    from apiserver_stub.kinds.registry import Resource
    from apiserver_stub.nodes.agents import NodeAgents
    from apiserver_stub.server.state import ApiServer
    from apiserver_stub.storage import Store


class Stream:
    """One such request; the handler calls :meth:`begins` when nothing can go wrong any more but the connection."""

    def __init__(
        self, server: ApiServer, http: web.BaseRequest, info: RequestInfo, query: Query, trail: AuditContext | None
    ) -> None:
        self._server, self._trail = server, trail
        self.http, self.info, self.query = http, info, query
        self.begun = False
        self.code = 200

    @property
    def agents(self) -> NodeAgents:
        return self._server.agents

    @property
    def store(self) -> Store:
        return self._server.store

    async def begins(self, code: int) -> None:
        """Note that the answer begins."""
        self.begun, self.code = True, code
        if self._trail is not None:
            await self._trail.started(code)


Handler = Callable[[Stream], Awaitable[web.StreamResponse]]


async def run(stream: Stream, server: ApiServer, resource: Resource, trail: AuditContext | None) -> web.StreamResponse:
    """Answer *stream* by the handler of its subresource; see :func:`carry`.

    :raises ApiError: it was refused before it began.
    """
    subresource = resource.subresource(stream.info.subresource)
    assert subresource is not None and subresource.stream is not None
    info = dataclasses.replace(stream.info, verb="connect")
    return await carry(stream, server, subresource.stream, info, resource, trail)


async def carry(
    stream: Stream,
    server: ApiServer,
    handler: Handler,
    info: RequestInfo,
    resource: Resource | None,
    trail: AuditContext | None,
) -> web.StreamResponse:
    """Answer *stream* by *handler*, until the client or the other side closes or the server stops.

    :param info: as what the request is counted.
    :raises ApiError: it was refused before it began.
    """
    http = stream.http
    started = time.perf_counter()
    server.metrics.watch_started(info, resource)
    answering = asyncio.ensure_future(handler(stream))
    stop = asyncio.ensure_future(server.stopping.wait())
    try:
        await asyncio.wait((answering, stop), return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            answering.cancel()
        try:
            answer = await answering
        except asyncio.CancelledError:
            if not stop.done():
                raise
            raise ConnectionResetError("the server stops") from None
    finally:
        server.metrics.watch_ended(info, resource)
        for task in (answering, stop):
            task.cancel()
        await asyncio.gather(answering, stop, return_exceptions=True)
    seconds = time.perf_counter() - started
    server.metrics.count(info, http.method, resource, 0 if answer.status == 101 else answer.status, seconds, 0, "")
    if server.tracing is not None:
        server.tracing.note(http, answer.status, seconds, stream.info.verb, response_writer.audit_id(http))
    if trail is not None:
        if not stream.begun:
            await trail.started(answer.status)
        await trail.ended()
    return answer
