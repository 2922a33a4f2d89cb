"""Responses to watches: frames on the wire, or messages of a WebSocket."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.status import bad_request, method_not_allowed
from apiserver_stub.pipeline.dispatch import note_deprecation
from apiserver_stub.transport import response_writer, websocket
from apiserver_stub.transport.sub_protocols import sub_protocols
from apiserver_stub.transport.websocket import WebSocket
from apiserver_stub.verbs.revisions import awaited_version, catch_up
from apiserver_stub.verbs.watch import Watch
from nodeagent.base.logging import v_level, verbose

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.audit.context import AuditContext
    from apiserver_stub.kinds import Resource
    from apiserver_stub.lifecycle import Lifecycle
    from apiserver_stub.pipeline.request_metrics import RequestMetrics
    from apiserver_stub.telemetry.tracing import Tracing
    from apiserver_stub.transport.http import HttpRequest, ResponseStream
    from apiserver_stub.verbs.context import VerbContext

_log = logging.getLogger(__name__)

_VERBOSITY = 3


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
        self, http: HttpRequest, request: Request, resource: Resource, audit_context: AuditContext | None
    ) -> None:
        """Send the changes of *resource* until the watch ends, the client disconnects or the server stops.

        :raises ApiError: the request is rejected.
        """
        if "watch" not in resource.verbs:
            raise method_not_allowed()
        version = request.query.get("resourceVersion")
        watch = Watch(self._context, request, resource, exists=await self._catch_up(request, resource))
        if verbose(_log, _VERBOSITY):
            fields = {
                "path": request.info.path,
                "resourceVersion": version,
                "labels": request.query.get("labelSelector"),
                "fields": request.query.get("fieldSelector"),
                "timeout": f"{watch.seconds:g}s",
            }
            _log.log(v_level(_VERBOSITY), "Starting watch", extra=fields)
        if resource.deprecation is not None:
            note_deprecation(request, resource, resource.deprecation)
        over_websocket = http.headers.get("Upgrade", "").lower() == "websocket"
        if over_websocket and not websocket.can_accept(http):
            raise bad_request("the connection cannot become a WebSocket")
        if audit_context is not None:
            await audit_context.started(200)
        response = _accept(http, request.warnings) if over_websocket else _start(http, watch, request.warnings)
        self._metrics.watch_started(request.info, resource)
        started = time.perf_counter()
        stop = asyncio.ensure_future(self._lifecycle.stopping.wait())
        pace = response_writer.RateLimitedWriter(self._max_bytes_per_second)
        if isinstance(response, WebSocket):
            pump = asyncio.ensure_future(_send_messages(watch, response, pace))
        else:
            pump = asyncio.ensure_future(_send_frames(watch, response, pace))
        try:
            await asyncio.wait((stop, pump), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._metrics.watch_ended(request.info, resource)
            for task in (stop, pump):
                task.cancel()
            results = await asyncio.gather(stop, pump, return_exceptions=True)
        if isinstance(response, WebSocket):
            await response.close()
        else:
            response.end()
        error = results[1]
        if isinstance(error, Exception) and not isinstance(error, ConnectionError):
            _log.error("Watch failed", extra={"path": request.info.path}, exc_info=error)
        seconds = time.perf_counter() - started
        self._metrics.count(request.info, "GET", resource, 200, seconds, 0, "")
        if self._tracing is not None:
            self._tracing.responded(http, 200, "watch")
        if audit_context is not None:
            await audit_context.ended()

    async def _catch_up(self, request: Request, resource: Resource) -> bool:
        """Wait until the store has reached the revision that *request* requires; return whether it may exist.

        :raises StoreUnavailable: the latest state is required, and the backend does not respond.
        """
        store, name, version = self._context.store, resource.storage, request.query.get("resourceVersion")
        if not version and request.query.flag("sendInitialEvents"):
            await catch_up(self._context, resource)
        revision = awaited_version(version)
        if revision <= store.revision_of(name) or await store.catch_up(name, revision):
            return True
        return await store.is_assigned(name, revision)  # Otherwise another server of the same store has reached it.


def _headers(http: HttpRequest, content_type: str, warnings: Sequence[str]) -> list[tuple[str, str]]:
    headers = response_writer.headers_of(http, content_type)
    headers.extend(("Warning", response_writer.warning(text)) for text in response_writer.truncated_warnings(warnings))
    return headers


def _start(http: HttpRequest, watch: Watch, warnings: Sequence[str]) -> ResponseStream:
    return http.start(200, _headers(http, watch.content_type, warnings))


def _accept(http: HttpRequest, warnings: Sequence[str]) -> WebSocket:
    protocol = next(iter(sub_protocols(http.headers)), "")
    return websocket.accept(http, protocol, _headers(http, "", warnings))


async def _send_messages(watch: Watch, socket: WebSocket, pace: response_writer.RateLimitedWriter) -> None:
    """Send a message for each event until the client disconnects; its messages are ignored."""

    async def send() -> None:
        async with aclosing(watch.frames()) as found:
            async for frames in found:
                for message in watch.messages(frames):
                    async for _ in pace.pieces(message):
                        pass  # Sent as one message after the pause of its last piece.
                    await socket.send(message, text=watch.is_text)

    tasks = [asyncio.ensure_future(send()), asyncio.ensure_future(socket.wait_closed())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    if isinstance(results[0], Exception):
        raise results[0]


async def _send_frames(watch: Watch, response: ResponseStream, pace: response_writer.RateLimitedWriter) -> None:
    async with aclosing(watch.frames()) as found:
        async for frames in found:
            if not pace.rate:
                await response.write(frames)
                continue
            async for piece in pace.pieces(frames):
                await response.write(piece)
