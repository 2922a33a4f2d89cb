"""Tests for the proxy to extension API servers: limits of requests, and errors."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.aggregation.remotes import Remote
from apiserver_stub.aggregation.service_resolver import Unresolved
from apiserver_stub.apimachinery.request import Query, User, parse_path
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.lifecycle import Lifecycle
from apiserver_stub.nodes.endpoint import Endpoint
from apiserver_stub.pipeline.aggregation_proxy import AggregationProxy
from apiserver_stub.pipeline.error_responses import PlainError
from apiserver_stub.pipeline.limits import Limits, LimitSettings
from apiserver_stub.pipeline.request_metrics import RequestMetrics
from apiserver_stub.pipeline.stream_response import StreamResponder
from apiserver_stub.subresources import Handlers
from tests.unit.apiserver_stub.nodes.backend import Backend, ConnectedRequest, node_agents, reply, serving, store_of
from tests.unit.apiserver_stub.transport.fake_http import FakeHttpRequest

REMOTE = Remote("v1.example.com", "example.com", "v1", "api", "default", 443, "", False, True, 0, 0)
THINGS = "/apis/example.com/v1/namespaces/default/things"
UPGRADE = {"Connection": "Upgrade", "Upgrade": "websocket"}


class Counting(Limits):
    """Limits that count the requests, and allow all or none."""

    def __init__(self, *, is_full: bool = False) -> None:
        unused: Any = None
        super().__init__(LimitSettings(max_in_flight=1), unused, RequestMetrics())
        self.counted = 0
        self.in_flight[False] = int(is_full)

    async def limited(self, *arguments: Any, **options: Any) -> Any:
        self.counted += 1
        return await super().limited(*arguments, **options)


class Harness:
    """Proxy of the requests of *user* to *backend*.

    :param error: fails the resolution of the Service.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        user: User | None = None,
        is_full: bool = False,
        error: Exception | None = None,
        rejects_redirects: bool = False,
        sends_uids: bool = False,
    ) -> None:
        self.limits, self._error, self._user = Counting(is_full=is_full), error, user or User("alice", "uid-1")
        store: Any = store_of()
        agents = node_agents(backend, store)
        streams = StreamResponder(agents, store, Handlers(), Lifecycle(), RequestMetrics(), None)
        extensions: Any = SimpleNamespace(endpoint_of=self._endpoint_of)
        self._proxy = AggregationProxy(
            extensions, self.limits, streams, rejects_redirects=rejects_redirects, sends_uids=sends_uids
        )

    async def _endpoint_of(self, remote: Remote) -> Endpoint:
        if self._error is not None:
            raise self._error
        return Endpoint("192.0.2.9", 80)

    async def run(self, http: FakeHttpRequest, remote: Remote = REMOTE) -> Any:
        query = Query(http.target.partition("?")[2])
        info = parse_path(http.method, http.path, query)
        request: Any = SimpleNamespace(info=info, query=query, method=http.method, user=self._user, afterwards=[])
        return await self._proxy.run(http, request, remote, None)


@pytest.mark.parametrize(
    ("target", "headers", "counted"),
    [
        (THINGS, {}, 1),
        (f"{THINGS}/a", {}, 1),
        (f"{THINGS}/a/status", {}, 1),
        (f"{THINGS}?watch=true", {}, 0),
        (f"{THINGS}/a/log", {}, 0),
        (f"{THINGS}/a/proxy", {}, 0),
    ],
)
async def test_watches_and_streams_are_not_limited(target: str, headers: dict[str, str], counted: int) -> None:
    async with serving(reply("200 OK", b"content")) as backend:
        harness, http = Harness(backend), FakeHttpRequest("GET", target, headers)

        assert await harness.run(http) is None

        assert (http.status, http.sent, harness.limits.counted) == (200, b"content", counted)
        assert backend.request.target == target


async def test_upgraded_connections_are_not_limited() -> None:
    async with serving(reply("400 Bad Request", b"no")) as backend:
        harness, http = Harness(backend), ConnectedRequest("GET", THINGS, UPGRADE)

        await harness.run(http)

        assert (http.status, harness.limits.counted) == (400, 0)


async def test_request_above_the_limit_is_not_forwarded() -> None:
    async with serving() as backend:
        found = await Harness(backend, is_full=True).run(FakeHttpRequest("GET", THINGS))

        assert (found.code, backend.dialed) == (429, [])


@pytest.mark.parametrize(("sends_uids", "uid"), [(False, None), (True, "uid-1")])
async def test_headers_identify_the_user(*, sends_uids: bool, uid: str | None) -> None:
    async with serving(reply("200 OK")) as backend:
        await Harness(backend, sends_uids=sends_uids).run(FakeHttpRequest("GET", THINGS))

        headers = backend.request.headers
        assert (headers["X-Remote-User"], headers.get("X-Remote-Uid")) == ("alice", uid)


@pytest.mark.parametrize(("rejects", "code"), [(False, 302), (True, 502)])
async def test_redirects_may_be_rejected(*, rejects: bool, code: int) -> None:
    async with serving(reply("302 Found", Location="/other")) as backend:
        http = FakeHttpRequest("GET", THINGS)
        await Harness(backend, rejects_redirects=rejects).run(http)

        assert http.status == code


@pytest.mark.parametrize(
    ("available", "options", "code", "message"),
    [
        (False, {}, 503, "service unavailable"),
        (True, {"error": Unresolved("no service")}, 503, "service unavailable"),
        (True, {"error": OSError("no certificate")}, 500, "no certificate"),
        (True, {"error": ValueError("invalid CA bundle")}, 500, "invalid CA bundle"),
        (True, {"user": User("a\nb")}, 500, "name of a user, group or extra contains a line break"),
    ],
)
async def test_request_that_cannot_be_forwarded_fails(
    options: dict[str, Any], code: int, message: str, *, available: bool
) -> None:
    async with serving() as backend:
        with pytest.raises(PlainError) as error:
            await Harness(backend, **options).run(FakeHttpRequest("GET", THINGS), replaced(available=available))

        assert (error.value.code, error.value.message, backend.dialed) == (code, message, [])


async def test_unreachable_server_is_unavailable() -> None:
    async with serving(error=ConnectionRefusedError("refused")) as backend:
        with pytest.raises(ApiError) as error:
            await Harness(backend).run(FakeHttpRequest("GET", THINGS))

        assert error.value.code == 503


def replaced(**fields: Any) -> Remote:
    """Return the API service with other *fields*."""
    return Remote(**{name: getattr(REMOTE, name) for name in REMOTE.__struct_fields__} | fields)
