"""A watch as the answer to a request: its frames on the wire, and its end."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import aclosing
from typing import TYPE_CHECKING

from aiohttp import web

from apiserver_stub import wire
from apiserver_stub.status import method_not_allowed
from apiserver_stub.verbs.watch import Watch

if TYPE_CHECKING:
    from apiserver_stub.app import ApiServer
    from apiserver_stub.audit.trail import Trail
    from apiserver_stub.request import Request
    from apiserver_stub.resources import Resource

_log = logging.getLogger(__name__)


async def run(
    server: ApiServer, http: web.BaseRequest, request: Request, resource: Resource, trail: Trail | None
) -> web.StreamResponse:
    """Answer with the changes of *resource* until the watch ends, the client goes or the server stops.

    :raises ApiError: it was refused before it began.
    """
    if "watch" not in resource.verbs:
        raise method_not_allowed()
    asked = request.query.get("resourceVersion")
    named = int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 20 else 0
    if named > server.store.revision_of(resource.storage):
        await server.store.catch_up(resource.storage, named)  # another server has told of it
    watch = Watch(server, request, resource)
    response = web.StreamResponse(headers=wire.headers_of(http, watch.content_type))
    response.enable_chunked_encoding()
    if trail is not None:
        await trail.started(200)
    await response.prepare(http)
    server.metrics.watch_started(request.info, resource)
    started = time.perf_counter()
    stop = asyncio.ensure_future(server.stopping.wait())
    pump = asyncio.ensure_future(_pump(watch, http, response, server.options.max_connection_bytes_per_sec))
    try:
        await asyncio.wait((stop, pump), return_when=asyncio.FIRST_COMPLETED)
    finally:
        server.metrics.watch_ended(request.info, resource)
        for task in (stop, pump):
            task.cancel()
        results = await asyncio.gather(stop, pump, return_exceptions=True)
    error = results[1]
    if isinstance(error, Exception) and not isinstance(error, ConnectionError):
        _log.error("Watch failed", extra={"path": request.info.path}, exc_info=error)
    seconds = time.perf_counter() - started
    server.metrics.count(request.info, "GET", resource, 200, seconds, 0, "")
    if server.tracing is not None:
        server.tracing.note(http, 200, seconds, "watch", wire.audit_id(http))
    if trail is not None:
        await trail.ended()
    return response


async def _pump(watch: Watch, http: web.BaseRequest, response: web.StreamResponse, rate: int) -> None:
    pace = wire.Pace(rate)
    async with aclosing(watch.frames()) as found:
        async for frames in found:
            if not rate and wire.write_chunk_at_once(http, frames):
                continue
            async for piece in pace.pieces(frames):
                async with wire.patience(http):
                    await response.write(piece)
