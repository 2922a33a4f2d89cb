"""Web application of one port: routes with access control, limits, metrics and an access log."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from dataclasses import replace

from aiohttp import web

from nodeagent.base import tracing
from nodeagent.base.logging import v_level
from nodeagent.contracts.server import SENT_BYTES, Exposure, Handler, Route, SentBytes, User
from nodeagent.errors import NodeAgentError
from nodeagent.server.access import Access, Denied
from nodeagent.server.access_recorder import AccessRecorder
from nodeagent.server.connection import Connection
from nodeagent.server.request_metrics import RequestMetrics

_log = logging.getLogger(__name__)

MAX_BODY_BYTES = 1024 * 1024
ACCESS_SECONDS = 20.0
"""Time limit of authentication and authorization."""
DEBUG_DISABLED = "Debug endpoints are disabled."


def build_app(
    routes: Iterable[Route], *, access: Access | None, debugging: bool, recorder: AccessRecorder
) -> web.Application:
    """Return the application of the secure port, or without *access*, of the read-only port.

    :param debugging: whether routes that access containers and logs are served
        (spec: config.enableDebuggingHandlers).
    :param recorder: records the requests of routes with ``streams``.
    """
    read_only = access is None
    by_route: dict[web.AbstractRoute, Route] = {}
    request_metrics = RequestMetrics("readonly" if read_only else "readwrite")

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if isinstance(request.protocol, Connection):
            request.protocol.request_received()
        route = by_route.get(request.match_info.route)
        started = time.monotonic()
        labels = request_metrics.begin(request.method, _first_segment(route), route is not None and route.streams)
        user, response, sent = None, None, SentBytes()
        SENT_BYTES.set(sent)
        recorded = recorder.begin(request, route) if route is not None and route.streams else None
        try:
            name = route.path if route is not None else "unknown"
            with tracing.span(name, lambda: _attributes(request), kind="server", caller=request.headers):
                user = await _admit(request, route, access)
                if recorded is not None:
                    recorded.admitted(user)
                response = await handler(request)
            if not response.prepared:
                response.headers.setdefault("X-Content-Type-Options", "nosniff")
            return response
        except Denied as denied:
            user, response = denied.user, web.Response(status=denied.status, text=denied.text)
            return response
        except web.HTTPException as error:
            error.headers.setdefault("X-Content-Type-Options", "nosniff")
            response = error
            raise
        except ConnectionError:
            if request.transport is not None and not request.transport.is_closing():
                raise
            return web.Response()  # The client has disconnected, which aiohttp would log as an error.
        finally:
            seconds = time.monotonic() - started
            request_metrics.end(labels, seconds)
            if recorded is not None:
                count = sent.count or (response.content_length or 0 if response is not None else 0)
                recorded.ended(user, response.status if response is not None else 0, count)
                _log_access(request, user, response, count, seconds)

    app = web.Application(
        middlewares=[guard],
        client_max_size=MAX_BODY_BYTES,
        logger=logging.getLogger("nodeagent.server"),
    )
    rejected: set[str] = set()
    for route in routes:
        served = _as_served(route, read_only=read_only, debugging=debugging)
        if served is None or served.path in rejected:
            continue
        if served.rejection:
            rejected.add(served.path)
        method = "*" if served.rejection else served.method
        by_route[app.router.add_route(method, served.path, _handler(served))] = served
    return app


async def _admit(request: web.Request, route: Route | None, access: Access | None) -> User | None:
    """Return the authorized user; ``None`` if the route requires no authentication.

    :raises Denied: authentication or authorization failed.
    """
    if access is None or (route is not None and route.exposure is Exposure.OPEN):
        return None
    try:
        async with asyncio.timeout(ACCESS_SECONDS):
            user = await access.check(request, route)
    except TimeoutError:
        raise Denied(500, "Authorization error: timeout") from None
    _log.log(v_level(4), "Request", extra={"verb": request.method, "path": request.path, "user": user.name})
    return user


def _as_served(route: Route, *, read_only: bool, debugging: bool) -> Route | None:
    """Return the route as served on this port; ``None`` if the port does not serve it."""
    if route.exposure is Exposure.READ_ONLY:
        return route
    if route.exposure in (Exposure.SECURE, Exposure.OPEN):
        return None if read_only else route
    if debugging and not read_only:
        return route
    return None if route.exposure is Exposure.DEBUG_HIDDEN else replace(route, rejection=DEBUG_DISABLED)


def _handler(route: Route) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        if route.rejection:
            return web.Response(status=405, text=route.rejection + "\n")
        try:
            response = await route.handler(request)
        except NodeAgentError as error:
            status = 404 if error.reason == "NotFound" else 500
            return web.Response(status=status, text=f"{error}\n")
        if not isinstance(response, web.StreamResponse):
            name = getattr(route.handler, "__qualname__", route.handler)
            raise TypeError(f"{name} of {route.path} returned {response!r:.80}, expected web.Response")
        return response

    return handle


def _attributes(request: web.Request) -> dict[str, str]:
    """Return the span attributes of the request, without the query, which may contain a command."""
    return {
        "http.method": request.method,
        "http.target": request.path,
        "http.user_agent": request.headers.get("User-Agent", ""),
    }


def _first_segment(route: Route | None) -> str:
    """Return the metric label of the path; unknown paths share one label to limit the number of series."""
    if route is None:
        return "other"
    segments = route.path.strip("/").split("/")
    if segments[0] == "metrics" and len(segments) > 1 and not segments[1].startswith("{"):
        return "/".join(segments[:2])
    return segments[0] or "root"


def _log_access(
    request: web.Request, user: User | None, response: web.StreamResponse | None, sent_bytes: int, seconds: float
) -> None:
    """Log a request of a streaming route, also if it was aborted."""
    _log.info(
        "Served",
        extra={
            "verb": request.method,
            "path": request.path,
            "user": user.name if user is not None else "",
            "source": request.remote,
            "status": response.status if response is not None else "aborted",
            "bytes": sent_bytes,
            "seconds": round(seconds, 3),
        },
    )
