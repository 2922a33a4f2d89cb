"""One port's application: routes behind access control, with limits, counts and an access log."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from dataclasses import replace

from aiohttp import web

from nodeagent.base import tracing
from nodeagent.base.logging import v_level
from nodeagent.contracts.server import SENT_BYTES, Exposure, Handler, Route, SentBytes
from nodeagent.errors import NodeAgentError
from nodeagent.server.access import Access, Denied
from nodeagent.server.listener import Connection
from nodeagent.server.statistics import Statistics

_log = logging.getLogger(__name__)

MAX_BODY_BYTES = 1024 * 1024
ACCESS_SECONDS = 20.0
"""How long it may take to learn who asks and whether they may."""
DEBUG_DISABLED = "Debug endpoints are disabled."


def build_app(routes: Iterable[Route], *, access: Access | None, debugging: bool) -> web.Application:
    """Return the application of the secured port, or, without *access*, of the read-only port.

    :param debugging: whether paths that reach into containers and logs are served
        (spec: config.enableDebuggingHandlers).
    """
    read_only = access is None
    by_route: dict[web.AbstractRoute, Route] = {}
    statistics = Statistics("readonly" if read_only else "readwrite")

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if isinstance(request.protocol, Connection):
            request.protocol.request_came()
        route = by_route.get(request.match_info.route)
        started = time.monotonic()
        counted = statistics.begin(request.method, _first_segment(route), route is not None and route.streams)
        user, answer, sent = "", None, SentBytes()
        SENT_BYTES.set(sent)
        try:
            name = route.path if route is not None else "unknown"
            with tracing.span(name, lambda: _attributes(request), kind="server", caller=request.headers):
                user = await _admit(request, route, access)
                answer = await handler(request)
            if not answer.prepared:
                answer.headers.setdefault("X-Content-Type-Options", "nosniff")
            return answer
        except Denied as denied:
            user, answer = denied.user, web.Response(status=denied.status, text=denied.text)
            return answer
        except web.HTTPException as error:
            error.headers.setdefault("X-Content-Type-Options", "nosniff")
            answer = error
            raise
        finally:
            seconds = time.monotonic() - started
            statistics.end(counted, seconds)
            if route is not None and route.streams:
                _log_access(request, user, answer, sent, seconds)

    app = web.Application(
        middlewares=[guard],
        client_max_size=MAX_BODY_BYTES,
        logger=logging.getLogger("nodeagent.server"),
    )
    refused: set[str] = set()
    for route in routes:
        served = _as_served(route, read_only=read_only, debugging=debugging)
        if served is None or served.path in refused:
            continue
        if served.rejection:
            refused.add(served.path)
        method = "*" if served.rejection else served.method
        by_route[app.router.add_route(method, served.path, _handler(served))] = served
    return app


async def _admit(request: web.Request, route: Route | None, access: Access | None) -> str:
    """Return the user's name, empty where nobody is asked for it.

    :raises Denied: the request is not let through.
    """
    if access is None or (route is not None and route.exposure is Exposure.OPEN):
        return ""
    try:
        async with asyncio.timeout(ACCESS_SECONDS):
            user = (await access.check(request, route)).name
    except TimeoutError:
        raise Denied(500, "Authorization error: nobody answered in time") from None
    _log.log(v_level(4), "Request", extra={"verb": request.method, "path": request.path, "user": user})
    return user


def _as_served(route: Route, *, read_only: bool, debugging: bool) -> Route | None:
    """Return the route as this port has it; ``None`` where the path does not exist."""
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
            answer = await route.handler(request)
        except NodeAgentError as error:
            status = 404 if error.reason == "NotFound" else 500
            return web.Response(status=status, text=f"{error}\n")
        if not isinstance(answer, web.StreamResponse):
            name = getattr(route.handler, "__qualname__", route.handler)
            raise TypeError(f"{name} of {route.path} answered {answer!r:.80}, which is no web.Response")
        return answer

    return handle


def _attributes(request: web.Request) -> dict[str, str]:
    """Return what a span says about the request; the query stays out, because it may hold a command."""
    return {
        "http.method": request.method,
        "http.target": request.path,
        "http.user_agent": request.headers.get("User-Agent", ""),
    }


def _first_segment(route: Route | None) -> str:
    """Return the path as metrics name it, so that no client can make up new series."""
    if route is None:
        return "other"
    segments = route.path.strip("/").split("/")
    if segments[0] == "metrics" and len(segments) > 1 and not segments[1].startswith("{"):
        return "/".join(segments[:2])
    return segments[0] or "root"


def _log_access(
    request: web.Request, user: str, answer: web.StreamResponse | None, sent: SentBytes, seconds: float
) -> None:
    """Say who looked into a pod or a log, and how much; also of one that was cut off."""
    _log.info(
        "Served",
        extra={
            "verb": request.method,
            "path": request.path,
            "user": user,
            "source": request.remote,
            "status": answer.status if answer is not None else "cut off",
            "bytes": sent.count or (answer.content_length or 0 if answer is not None else 0),
            "seconds": round(seconds, 3),
        },
    )
