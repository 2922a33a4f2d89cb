"""Limits of requests: length of the body, number in flight, time."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, overload

from apiserver_stub.apimachinery.status import bad_request, too_large
from apiserver_stub.endpoints import profiling
from apiserver_stub.flowcontrol.priority_levels import Rejected
from apiserver_stub.flowcontrol.request_width import seats_of
from apiserver_stub.pipeline.deadlines import Deadlines
from apiserver_stub.pipeline.error_responses import timed_out, too_many
from apiserver_stub.pipeline.request_metrics import method_of
from apiserver_stub.transport.http import BodyTooLong, HttpRequest, MalformedBody
from nodeagent.base import tracing
from nodeagent.base.duration import parse_duration
from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request, RequestInfo, User
    from apiserver_stub.audit.context import AuditContext
    from apiserver_stub.flowcontrol.priority_and_fairness import PriorityAndFairness
    from apiserver_stub.flowcontrol.schemas import FlowSchema
    from apiserver_stub.kinds import Resource
    from apiserver_stub.pipeline.dispatch import Dispatcher
    from apiserver_stub.pipeline.request_metrics import RequestMetrics
    from apiserver_stub.storage import Record
    from apiserver_stub.transport.rendered import Rendered

MAX_BODY_BYTES = 3 << 20
MUTATING = frozenset(["POST", "PUT", "PATCH", "DELETE"])
_DRAIN_POLL_SECONDS = 0.02
Elsewhere = Callable[[], Awaitable[None]]


async def _read_body(http: HttpRequest) -> bytes:
    """Return the body of a mutating request.

    :raises ApiError: 413, it is too long; 400, its framing is invalid.
    """
    if not http.has_body:
        return b""
    try:
        return await http.read_body(MAX_BODY_BYTES)
    except BodyTooLong:
        raise too_large(f"limit is {MAX_BODY_BYTES}") from None
    except MalformedBody as error:
        raise bad_request(f"malformed body: {error}") from None


class LimitSettings(Struct, frozen=True):
    """Limits of requests; numbers count without API Priority and Fairness, and 0 means unlimited."""

    timeout_seconds: float = 60
    max_in_flight: int = 400
    max_mutating_in_flight: int = 200
    measures_sizes: bool = False
    """``True`` if the width of lists depends on the size of their objects."""


class Limits:
    """Limits on the number of requests in flight, and on the time of each; watches and streams are not counted."""

    def __init__(
        self,
        settings: LimitSettings,
        dispatcher: Dispatcher,
        metrics: RequestMetrics,
        flow_control: PriorityAndFairness | None = None,
        stored: Callable[[Resource], Sequence[Record]] = lambda resource: (),
    ) -> None:
        """Limit requests by *settings*, or by priority and fairness.

        :param stored: returns the stored objects of a resource, which lists read.
        """
        self._settings, self._dispatcher, self._metrics = settings, dispatcher, metrics
        self._stored = stored
        self.flow_control = flow_control
        self._deadlines = Deadlines()
        self.in_flight = {True: 0, False: 0}
        """Numbers of requests in flight, mutating ones under ``True``."""

    async def drained(self) -> None:
        """Return when no request is in flight, at the latest after the timeout of requests."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settings.timeout_seconds):
                while sum(self.in_flight.values()):  # noqa: ASYNC110 - counted on every request, awaited once
                    await asyncio.sleep(_DRAIN_POLL_SECONDS)

    @overload
    async def limited(
        self, http: HttpRequest, request: Request, resource: Resource | None, audit_context: AuditContext | None
    ) -> Rendered: ...

    @overload
    async def limited(
        self,
        http: HttpRequest,
        request: Request,
        resource: Resource | None,
        audit_context: AuditContext | None,
        elsewhere: Elsewhere,
    ) -> Rendered | None: ...

    async def limited(
        self,
        http: HttpRequest,
        request: Request,
        resource: Resource | None,
        audit_context: AuditContext | None,
        elsewhere: Elsewhere | None = None,
    ) -> Rendered | None:
        """Run *request* within the limits of requests in flight and of time.

        The body is read after admission to a seat, so waiting requests do not buffer it.

        :param elsewhere: sends the response instead of the dispatcher, and reads the body.
        :returns: the response to send, ``None`` after *elsewhere*.
        :raises ApiError: 504, the time is over; 400, the timeout is invalid; or what the dispatcher raises.
        """
        info = request.info
        seconds = self._timeout_of(request)
        mutating = request.method in MUTATING
        admission = None
        schema, fairness = self.classify(http, request.user, info), self.flow_control
        if schema is not None and fairness is not None:
            try:
                width = self._width(fairness, schema, request, resource)
                started = time.perf_counter()
                entering = fairness.enter(schema, request.user, info, width)
                admission = await tracing.during("priorityandfairness", entering)
                request.add_duration("apf-queue-wait", time.perf_counter() - started)
            except Rejected as error:
                self._metrics.terminated(info, method_of(request), resource, 429)
                return too_many(error.retry_seconds)
        elif self._is_full(request, mutating):
            self._metrics.terminated(info, method_of(request), resource, 429)
            return too_many()
        self.in_flight[mutating] += 1
        try:
            with self._deadlines.after(seconds):
                if elsewhere is not None:
                    await elsewhere()
                    return None
                if mutating:
                    request.body = await _read_body(http)
                if audit_context is not None:
                    audit_context.sent(http.headers, request.body)
                return await self._dispatcher.dispatch(request, resource)
        except TimeoutError:
            self._metrics.terminated(info, method_of(request), resource, 504)
            raise timed_out() from None
        finally:
            self.in_flight[mutating] -= 1
            for end in request.afterwards:
                end()
            if self.flow_control is not None and admission is not None:
                self.flow_control.leave(admission)

    def classify(self, http: HttpRequest, user: User, info: RequestInfo) -> FlowSchema | None:
        """Return the flow schema of a request, which the response's headers then name; ``None`` without fairness."""
        if self.flow_control is None or info.path.startswith(profiling.ROOT):
            return None
        schema, given = self.flow_control.sort(user, info), http.response_headers
        http.response_headers = {**given, **schema.headers} if given else schema.headers
        return schema

    def _width(
        self, fairness: PriorityAndFairness, schema: FlowSchema, request: Request, resource: Resource | None
    ) -> int:
        if resource is None or request.info.verb not in ("list", "watch"):
            return 1
        most = fairness.levels[schema.level].max_width
        by_size = self._settings.measures_sizes
        return seats_of(request.info, request.query, lambda: self._stored(resource), most, by_size=by_size)

    def _is_full(self, request: Request, mutating: bool) -> bool:
        limit = self._settings.max_mutating_in_flight if mutating else self._settings.max_in_flight
        counts = request.info.is_resource and "system:masters" not in request.user.groups
        return counts and limit > 0 and self.in_flight[mutating] >= limit

    def _timeout_of(self, request: Request) -> float:
        """Return the timeout of *request* in seconds: the requested one, at most that of the server.

        :raises ApiError: 400, the requested one is not a duration; 504, it is zero.
        """
        seconds = self._settings.timeout_seconds
        if text := request.query.get("timeout"):
            try:
                requested = parse_duration(text).seconds
            except ValueError:
                problem = f'time: invalid duration "{text}"'
                raise bad_request(f"invalid timeout specified in the request URL - {problem}") from None
            seconds = min(seconds, requested) if requested > 0 else seconds
        if not seconds:
            raise timed_out()
        return seconds
