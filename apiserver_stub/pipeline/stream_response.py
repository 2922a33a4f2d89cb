"""Responses to streams: proxies, exec, attach, port-forward and logs."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from typing import TYPE_CHECKING

from apiserver_stub.nodes.stream import Stream, StreamHandler
from apiserver_stub.transport import response_writer

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Query, RequestInfo
    from apiserver_stub.audit.context import AuditContext
    from apiserver_stub.kinds.registry import Resource
    from apiserver_stub.lifecycle import Lifecycle
    from apiserver_stub.nodes.agents import NodeAgents
    from apiserver_stub.pipeline.request_metrics import RequestMetrics
    from apiserver_stub.storage import Store
    from apiserver_stub.subresources import Handlers
    from apiserver_stub.telemetry.tracing import Tracing
    from apiserver_stub.transport.http import HttpRequest


class StreamResponder:
    """Responses to streams; they are counted as long-running, and end when the server stops."""

    def __init__(
        self,
        agents: NodeAgents,
        store: Store,
        handlers: Handlers,
        lifecycle: Lifecycle,
        metrics: RequestMetrics,
        tracing: Tracing | None,
    ) -> None:
        self._agents, self._store, self._handlers = agents, store, handlers
        self._lifecycle, self._metrics, self._tracing = lifecycle, metrics, tracing

    def stream(self, http: HttpRequest, info: RequestInfo, query: Query, audit_context: AuditContext | None) -> Stream:
        """Return the stream for a request."""
        on_begin = audit_context.started if audit_context is not None else None
        return Stream(http, info, query, self._agents, self._store, on_begin)

    async def run(
        self, http: HttpRequest, info: RequestInfo, query: Query, resource: Resource, audit_context: AuditContext | None
    ) -> None:
        """Respond with the handler of the subresource; see :meth:`carry`.

        :raises ApiError: the request is rejected before the response starts.
        """
        handler = self._handlers.stream(resource, info.subresource)
        assert handler is not None
        stream = self.stream(http, info, query, audit_context)
        await self.carry(stream, handler, dataclasses.replace(info, verb="connect"), resource, audit_context)

    async def carry(
        self,
        stream: Stream,
        handler: StreamHandler,
        info: RequestInfo,
        resource: Resource | None,
        audit_context: AuditContext | None,
    ) -> None:
        """Run *handler* until the client or the other side closes, or the server stops.

        :param info: labels of the metrics.
        :raises ApiError: the request is rejected before the response starts.
        :raises ConnectionError: the connection ended early.
        """
        http = stream.http
        started = time.perf_counter()
        self._metrics.watch_started(info, resource)
        responding = asyncio.ensure_future(handler(stream))
        stop = asyncio.ensure_future(self._lifecycle.stopping.wait())
        try:
            await asyncio.wait((responding, stop), return_when=asyncio.FIRST_COMPLETED)
            if not responding.done():
                responding.cancel()
            try:
                complete = await responding
            except asyncio.CancelledError:
                if not stop.done():
                    raise
                raise ConnectionResetError("the server stops") from None
        finally:
            self._metrics.watch_ended(info, resource)
            for task in (responding, stop):
                task.cancel()
            await asyncio.gather(responding, stop, return_exceptions=True)
        seconds = time.perf_counter() - started
        code = stream.code if complete is None else complete.code
        self._metrics.count(info, http.method, resource, 0 if code == 101 else code, seconds, 0, "")
        if self._tracing is not None:
            self._tracing.responded(http, code, stream.info.verb)
        if audit_context is not None:
            if not stream.started:
                await audit_context.started(code)
            await audit_context.ended()
        if complete is not None:
            stream.started = True
            await response_writer.send(http, complete, (), compress=False)
