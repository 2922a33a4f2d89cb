"""Tests for the limits of request bodies."""

from __future__ import annotations

import asyncio
from contextlib import closing
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.apimachinery import media
from apiserver_stub.apimachinery.request import ANONYMOUS, Query, Request, RequestInfo, User
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.flowcontrol.priority_levels import Rejected
from apiserver_stub.flowcontrol.schemas import FlowSchema
from apiserver_stub.pipeline.limits import MAX_BODY_BYTES, Limits, LimitSettings
from apiserver_stub.pipeline.request_metrics import RequestMetrics
from apiserver_stub.transport.http import MalformedBody
from apiserver_stub.transport.rendered import Rendered
from nodeagent.base.identity import Identity
from nodeagent.base.simulation.loop import SimulatedLoop
from tests.unit.apiserver_stub.transport.fake_http import FakeHttpRequest


class Echo:
    """Dispatcher that responds with the body of the request."""

    async def dispatch(self, request: Any, resource: Any) -> Rendered:
        return Rendered(200, "text/plain", [request.body])


class Malformed(FakeHttpRequest):
    """Request with an invalid chunk size."""

    async def read_body(self, limit: int) -> bytes:
        raise MalformedBody("invalid chunk size")


async def limited(http: FakeHttpRequest) -> bytes:
    """Return the body that the dispatcher receives."""
    info = RequestInfo(http.method.lower(), "/")
    fields = {"info": info, "method": http.method, "query": Query(""), "user": ANONYMOUS, "afterwards": [], "body": b""}
    request: Any = SimpleNamespace(**fields)
    limits = Limits(LimitSettings(), Echo(), RequestMetrics())  # type: ignore[arg-type]
    return b"".join((await limits.limited(http, request, None, None)).pieces)


@pytest.mark.parametrize(("method", "received"), [("POST", b"a"), ("PATCH", b"a"), ("GET", b"")])
async def test_body_is_read_for_methods_that_modify(method: str, received: bytes) -> None:
    assert await limited(FakeHttpRequest(method, content=b"a")) == received


@pytest.mark.parametrize(
    ("http", "code"),
    [(FakeHttpRequest("POST", content=bytes(MAX_BODY_BYTES + 1)), 413), (Malformed("POST", content=b"a"), 400)],
    ids=["too long", "malformed"],
)
async def test_unusable_body_is_rejected(http: FakeHttpRequest, code: int) -> None:
    with pytest.raises(ApiError) as raised:
        await limited(http)

    assert raised.value.code == code


LIST = RequestInfo("list", "/api/v1/pods", "", "v1", "pods")
ALICE, MASTER = User("alice"), User("admin", groups=("system:masters",))


def requested(info: RequestInfo = LIST, user: User = ALICE, query: str = "", method: str = "GET") -> Any:
    return Request(method, info, Query(query), {}, b"", user, media.PLAIN, Identity())


def limits_of(**settings: Any) -> Limits:
    return Limits(LimitSettings(**settings), Echo(), RequestMetrics())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("user", "info", "method", "limit", "in_flight", "code"),
    [
        (ALICE, LIST, "GET", 2, 1, 200),
        (ALICE, LIST, "GET", 2, 2, 429),
        (ALICE, LIST, "GET", 0, 9, 200),
        (MASTER, LIST, "GET", 2, 2, 200),
        (ALICE, RequestInfo("get", "/version"), "GET", 2, 2, 200),
        (ALICE, RequestInfo("create", "/api/v1/pods", "", "v1", "pods"), "POST", 2, 2, 429),
    ],
)
async def test_requests_above_the_limit_are_throttled(
    user: User, info: RequestInfo, method: str, limit: int, in_flight: int, code: int
) -> None:
    mutating = method == "POST"
    limits = limits_of(**{"max_mutating_in_flight" if mutating else "max_in_flight": limit})
    limits.in_flight[mutating] = in_flight

    found = await limits.limited(FakeHttpRequest(method), requested(info, user, method=method), None, None)

    assert (found.code, limits.in_flight[mutating]) == (code, in_flight)


async def test_reads_and_writes_have_separate_limits() -> None:
    limits = limits_of(max_in_flight=1, max_mutating_in_flight=1)
    limits.in_flight[True] = 1

    assert (await limits.limited(FakeHttpRequest(), requested(), None, None)).code == 200


class Late:
    """Dispatcher that responds after *seconds*."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def dispatch(self, request: Any, resource: Any) -> Rendered:
        await asyncio.sleep(self._seconds)
        return Rendered(200, "text/plain", [])


@pytest.mark.parametrize(
    ("text", "permits"),
    [("", 60), ("0", 60), ("0s", 60), ("-5s", 60), ("10s", 10), ("1m", 60), ("2m", 60), ("1h", 60)],
)
def test_client_may_shorten_the_timeout(text: str, permits: int) -> None:
    async def respond(seconds: float) -> int:
        limits = Limits(LimitSettings(timeout_seconds=60), Late(seconds), RequestMetrics())  # type: ignore[arg-type]
        try:
            found = await limits.limited(FakeHttpRequest(), requested(query=f"timeout={text}"), None, None)
        except ApiError as error:
            return error.code
        return found.code

    with closing(SimulatedLoop(0)) as loop:
        assert loop.run_until_complete(respond(permits - 1)) == 200
        assert loop.run_until_complete(respond(permits + 1)) == 504


async def test_timeout_must_be_a_duration_and_the_servers_not_zero() -> None:
    for query, settings, code in (("timeout=soon", {}, 400), ("", {"timeout_seconds": 0}, 504)):
        with pytest.raises(ApiError) as error:
            await limits_of(**settings).limited(FakeHttpRequest(), requested(query=query), None, None)
        assert error.value.code == code, query


class Fairness:
    """Priority and fairness that rejects requests, or lets them take at most 4 seats."""

    levels: Any = MappingProxyType({"level": SimpleNamespace(max_width=4)})

    def __init__(self, *, rejects: bool = False) -> None:
        self._rejects, self._rejected = rejects, Rejected("queue-full")
        self._rejected.retry_seconds = 7
        self.seats: list[int] = []

    def sort(self, user: User, info: RequestInfo) -> FlowSchema:
        return FlowSchema("s", "level", lambda user, info: True, headers={"X-Schema": "s"})

    async def enter(self, schema: FlowSchema, user: User, info: RequestInfo, width: int) -> int:
        if self._rejects:
            raise self._rejected
        self.seats.append(width)
        return width

    def leave(self, width: int) -> None:
        self.seats.append(-width)


@pytest.mark.parametrize(
    ("info", "is_stored", "width"),
    [
        (LIST, True, 3),
        (LIST, False, 1),
        (RequestInfo("get", "/api/v1/namespaces/a/pods/p", "", "v1", "pods", name="p"), True, 1),
        (RequestInfo("watch", "/api/v1/pods", "", "v1", "pods"), True, 3),
    ],
)
async def test_seats_of_priority_and_fairness_are_released(info: RequestInfo, *, is_stored: bool, width: int) -> None:
    fairness: Any = Fairness()
    stored: Any = [object()] * 250
    resource: Any = object() if is_stored else None
    limits = Limits(LimitSettings(), Echo(), RequestMetrics(), fairness, lambda _: stored)  # type: ignore[arg-type]

    request = requested(info, query="sendInitialEvents=true")
    await limits.limited(FakeHttpRequest(), request, resource, None)

    assert fairness.seats == [width, -width]
    assert list(request.durations) == ["apf-queue-wait"]


async def test_request_without_a_seat_may_be_repeated_later() -> None:
    limits = limits_of()
    fairness: Any = Fairness(rejects=True)
    limits.flow_control = fairness
    http = FakeHttpRequest()

    found = await limits.limited(http, requested(), None, None)

    assert (found.code, found.headers["Retry-After"], limits.in_flight[False]) == (429, "7", 0)
    assert http.response_headers == {"X-Schema": "s"}


async def test_profiles_have_no_limits() -> None:
    limits = limits_of()
    fairness: Any = Fairness()
    limits.flow_control = fairness

    await limits.limited(FakeHttpRequest(), requested(RequestInfo("get", "/debug/pprof/heap")), None, None)

    assert fairness.seats == []


async def test_headers_of_the_flow_schema_are_added_to_others() -> None:
    limits = limits_of()
    fairness: Any = Fairness()
    limits.flow_control, http = fairness, FakeHttpRequest()
    http.response_headers = {"Vary": "Origin"}

    limits.classify(http, ALICE, LIST)

    assert http.response_headers == {"Vary": "Origin", "X-Schema": "s"}


def test_server_waits_for_requests_in_flight_until_their_timeout() -> None:
    async def drained(ends_after: float) -> float:
        limits, loop = limits_of(timeout_seconds=60), asyncio.get_running_loop()
        limits.in_flight[True] = 1
        loop.call_later(ends_after, limits.in_flight.update, {True: 0})
        started = loop.time()
        await limits.drained()
        return loop.time() - started

    with closing(SimulatedLoop(0)) as loop:
        assert loop.run_until_complete(drained(5)) == pytest.approx(5, abs=0.1)
        assert loop.run_until_complete(drained(90)) == pytest.approx(60)
