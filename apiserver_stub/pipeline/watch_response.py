"""Responses to watches: frames on the wire, or messages of a WebSocket."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from aiohttp import web

from apiserver_stub.apimachinery.status import bad_request, method_not_allowed
from apiserver_stub.pipeline.dispatch import note_deprecation
from apiserver_stub.transport import response_writer
from apiserver_stub.transport.sub_protocols import sub_protocols
from apiserver_stub.verbs.watch import Watch
from nodeagent.base.logging import v_level, verbose

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.audit.context import AuditContext
    from apiserver_stub.kinds import Resource
    from apiserver_stub.lifecycle import Lifecycle
    from apiserver_stub.pipeline.request_metrics import RequestMetrics
    from apiserver_stub.telemetry.tracing import Tracing
    from apiserver_stub.verbs.context import VerbContext

_log = logging.getLogger(__name__)

_VERBOSITY = 3
_CLOSE_SECONDS = 1.0
"""Time for the client of a WebSocket to acknowledge its end."""
_MAX_RECEIVED_BYTES = 64 << 10


class WatchResponder:
    """Responses to watches.

    :param max_bytes_per_second: limit of each connection, 0 for none.
    """

    def __init__(
        self,
        context: VerbContext,
        lifecycle: Lifecycle,
        metrics: RequestMetrics,
        tracing: Tracing | None,
        max_bytes_per_second: int,
    ) -> None:
        self._context, self._lifecycle, self._metrics = context, lifecycle, metrics
        self._tracing, self._max_bytes_per_second = tracing, max_bytes_per_second

    async def run(
        self, http: web.BaseRequest, request: Request, resource: Resource, trail: AuditContext | None
    ) -> web.StreamResponse:
        """Send the changes of *resource* until the watch ends, the client disconnects or the server stops.

        :raises ApiError: the request is rejected.
        """
        if "watch" not in resource.verbs:
            raise method_not_allowed()
        version = request.query.get("resourceVersion")
        revision = int(version) if version.isascii() and version.isdigit() and len(version) < 20 else 0
        if revision > self._context.store.revision_of(resource.storage):  # Of another server of the same store.
            await self._context.store.catch_up(resource.storage, revision)
        watch = Watch(self._context, request, resource)
        if verbose(_log, _VERBOSITY):
            fields = {
                "path": request.info.path,
                "resourceVersion": version,
                "labels": request.query.get("labelSelector"),
                "fields": request.query.get("fieldSelector"),
                "timeout": f"{watch.seconds:g}s",
            }
            _log.log(v_level(_VERBOSITY), "Starting watch", extra=fields)
        if trail is not None:
            request.annotations = trail.event.annotations
        if resource.deprecation is not None:
            note_deprecation(request, resource, resource.deprecation)
        response = _response(http, watch, request.warnings)
        if trail is not None:
            await trail.started(200)
        await response.prepare(http)
        self._metrics.watch_started(request.info, resource)
        started = time.perf_counter()
        stop = asyncio.ensure_future(self._lifecycle.stopping.wait())
        pace = response_writer.RateLimitedWriter(self._max_bytes_per_second)
        if isinstance(response, web.WebSocketResponse):
            pump = asyncio.ensure_future(_talk(watch, http, response, pace))
        else:
            pump = asyncio.ensure_future(_pump(watch, http, response, pace))
        try:
            await asyncio.wait((stop, pump), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._metrics.watch_ended(request.info, resource)
            for task in (stop, pump):
                task.cancel()
            results = await asyncio.gather(stop, pump, return_exceptions=True)
        if isinstance(response, web.WebSocketResponse):
            await response.close()
        error = results[1]
        if isinstance(error, Exception) and not isinstance(error, ConnectionError):
            _log.error("Watch failed", extra={"path": request.info.path}, exc_info=error)
        seconds = time.perf_counter() - started
        self._metrics.count(request.info, "GET", resource, 200, seconds, 0, "")
        if self._tracing is not None:
            self._tracing.note(http, 200, seconds, "watch", response_writer.audit_id(http))
        if trail is not None:
            await trail.ended()
        return response


def _response(http: web.BaseRequest, watch: Watch, warnings: Sequence[str]) -> web.StreamResponse:
    """Return a stream, or WebSocket messages if the client requests an upgrade.

    :raises ApiError: 400, the connection cannot be upgraded.
    """
    headers = response_writer.headers_of(http, watch.content_type)
    for text in response_writer.truncated_warnings(warnings):
        headers.add("Warning", response_writer.warning(text))
    if http.headers.get("Upgrade", "").lower() != "websocket":
        response = web.StreamResponse(headers=headers)
        response.enable_chunked_encoding()
        return response
    socket = web.WebSocketResponse(
        protocols=sub_protocols(http.headers),
        timeout=_CLOSE_SECONDS,
        compress=False,
        max_msg_size=_MAX_RECEIVED_BYTES,
    )
    if not socket.can_prepare(http):
        raise bad_request("the connection cannot become a WebSocket")
    del headers["Content-Type"]
    socket.headers.update(headers)
    return socket


async def _talk(
    watch: Watch, http: web.BaseRequest, socket: web.WebSocketResponse, pace: response_writer.RateLimitedWriter
) -> None:
    """Send a message for each event until the client disconnects; its messages are ignored."""

    async def send() -> None:
        async with aclosing(watch.frames()) as found:
            async for frames in found:
                for message in watch.messages(frames):
                    async for _ in pace.pieces(message):
                        pass  # Sent as one message after the pause of its last piece.
                    async with response_writer.write_timeout(http):
                        await (socket.send_str(message.decode()) if watch.is_text else socket.send_bytes(message))

    async def receive() -> None:
        async for _ in socket:
            pass

    tasks = [asyncio.ensure_future(send()), asyncio.ensure_future(receive())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    if isinstance(results[0], Exception):
        raise results[0]


async def _pump(
    watch: Watch, http: web.BaseRequest, response: web.StreamResponse, pace: response_writer.RateLimitedWriter
) -> None:
    async with aclosing(watch.frames()) as found:
        async for frames in found:
            if not pace.rate and response_writer.write_chunk_immediately(http, frames):
                continue
            async for piece in pace.pieces(frames):
                async with response_writer.write_timeout(http):
                    await response.write(piece)
