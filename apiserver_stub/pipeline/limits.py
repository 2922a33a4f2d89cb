"""How much of the server one request may take: length of its body, a place among those under way, time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, overload

from aiohttp import web

from apiserver_stub.apimachinery.status import ApiError, bad_request, too_large
from apiserver_stub.endpoints import profiling
from apiserver_stub.flowcontrol.priority_and_fairness import Rejected
from apiserver_stub.pipeline.dispatch import dispatch
from apiserver_stub.pipeline.error_responses import timed_out, too_many
from apiserver_stub.telemetry.request_metrics import method_of
from apiserver_stub.transport import response_writer
from nodeagent.base.duration import parse_duration

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.audit.context import AuditContext
    from apiserver_stub.kinds import Resource
    from apiserver_stub.server.state import ApiServer
    from apiserver_stub.verbs.responses import Rendered

MAX_BODY_BYTES = 3 << 20
MUTATING = frozenset(["POST", "PUT", "PATCH", "DELETE"])
Elsewhere = Callable[[], Awaitable[web.StreamResponse]]


async def _read_body(http: web.BaseRequest) -> bytes:
    """Return the body of a request that may have one.

    :raises ApiError: 413, it is too long.
    """
    if http.method not in MUTATING or not http.can_read_body:
        return b""
    if (http.content_length or 0) > MAX_BODY_BYTES:
        raise _too_large()
    if http.headers.get("Expect", "").lower() == "100-continue" and http.transport is not None:
        http.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    try:
        if http.content.is_eof():  # all of it came with the head: there is nothing to wait for
            body = http.content.read_nowait()
            if len(body) > MAX_BODY_BYTES:
                raise _too_large()
            return body
        return await http.read()
    except web.HTTPRequestEntityTooLarge:
        raise _too_large() from None


@overload
async def limited(
    server: ApiServer, http: web.BaseRequest, request: Request, resource: Resource | None, trail: AuditContext | None
) -> Rendered: ...


@overload
async def limited(
    server: ApiServer,
    http: web.BaseRequest,
    request: Request,
    resource: Resource | None,
    trail: AuditContext | None,
    elsewhere: Elsewhere,
) -> Rendered | web.StreamResponse: ...


async def limited(
    server: ApiServer,
    http: web.BaseRequest,
    request: Request,
    resource: Resource | None,
    trail: AuditContext | None,
    elsewhere: Elsewhere | None = None,
) -> Rendered | web.StreamResponse:
    """Let the request in when there is a place for it, and end it when it takes too long.

    Its body is read only then: of many that wait, none holds more than the beginning of its own.

    :param elsewhere: answers instead of this server, from the body as it comes.
    """
    info = request.info
    seconds = _time_for(server, request)
    mutating = request.method in MUTATING
    schema = level = None
    if server.fairness is not None and not info.path.startswith(profiling.ROOT):  # who profiles looks on
        schema = server.fairness.sort(request.user, info)
        given = http.get(response_writer.EXTRA_HEADERS)
        http[response_writer.EXTRA_HEADERS] = {**given, **schema.headers} if given else schema.headers
        try:
            level = await server.fairness.enter(schema, request.user, info)
        except Rejected as error:
            server.metrics.terminated(info, method_of(request), resource, 429)
            return too_many(error.retry_seconds)
    elif _is_full(server, request, mutating):
        server.metrics.terminated(info, method_of(request), resource, 429)
        return too_many()
    server.under_way[mutating] += 1
    try:
        with server.deadlines.after(seconds):
            if elsewhere is not None:
                return await elsewhere()
            request.body = await _read_body(http)
            if trail is not None:
                trail.sent(http.headers, request.body)
            return await dispatch(server, request, resource)
    except TimeoutError:
        server.metrics.terminated(info, method_of(request), resource, 504)
        raise timed_out() from None
    finally:
        server.under_way[mutating] -= 1
        for end in request.afterwards:
            end()
        if server.fairness is not None and schema is not None:
            server.fairness.leave(schema, level)


def _too_large() -> ApiError:
    return too_large(f"limit is {MAX_BODY_BYTES}")


def _is_full(server: ApiServer, request: Request, mutating: bool) -> bool:
    options = server.options
    limit = options.max_mutating_requests_inflight if mutating else options.max_requests_inflight
    counts = request.info.is_resource and "system:masters" not in request.user.groups
    return counts and limit > 0 and server.under_way[mutating] >= limit


def _time_for(server: ApiServer, request: Request) -> float:
    """Return the seconds that a request may take: what it asks for, and not more than the server has.

    :raises ApiError: 400, it asks for what is no length of time; 504, there is no time at all.
    """
    seconds = server.options.request_timeout_seconds
    if text := request.query.get("timeout"):
        try:
            asked = parse_duration(text).seconds
        except ValueError:
            problem = f'time: invalid duration "{text}"'
            raise bad_request(f"invalid timeout specified in the request URL - {problem}") from None
        seconds = min(seconds, asked) if asked > 0 else seconds
    if not seconds:
        raise timed_out()
    return seconds
