"""Tests for the application of a port: exposure of routes, errors, limits and records of requests."""

import logging

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from nodeagent.contracts.server import SENT_BYTES, Exposure, Route, User
from nodeagent.errors import NodeAgentError, NotFound
from nodeagent.server import app as server_app
from nodeagent.server.access import Denied
from nodeagent.server.access_recorder import AccessRecorder
from nodeagent.server.app import DEBUG_DISABLED, build_app
from nodeagent.server.request_metrics import REQUESTS


class Queue:
    def __init__(self, *, needed=True):
        self.needed, self.records = needed, []

    def put(self, value):
        self.records.append(value)


class Permit:
    """Access that permits users other than ``nobody``."""

    def __init__(self, user="jane"):
        self.user = user

    async def check(self, request, route):
        if self.user == "nobody":
            raise Denied(403, "Forbidden", User("nobody"))
        return User(self.user)


async def ok(request):
    return web.Response(text="ok")


def route(path, handler=ok, exposure=Exposure.SECURE, **fields):
    return Route("GET", path, handler, exposure, **fields)


async def get(clock, routes, path, *, method="GET", access=None, debugging=True, queue=None):
    queue = queue or Queue()
    app = build_app(routes, access=access, debugging=debugging, recorder=AccessRecorder(clock, queue))
    app.freeze()
    request = make_mocked_request(method, path, {"User-Agent": "test"}, app=app)
    try:
        response = await app._handle(request)
    except web.HTTPException as error:
        response = error
    return response


async def test_routes_are_served_by_exposure(clock):
    routes = [
        route("/open", exposure=Exposure.OPEN),
        route("/secure"),
        route("/read", exposure=Exposure.READ_ONLY),
        route("/debug", exposure=Exposure.DEBUG),
        route("/hidden", exposure=Exposure.DEBUG_HIDDEN),
        route("/off", exposure=Exposure.READ_ONLY, rejection="switched off."),
    ]
    secure = {"/open": 200, "/secure": 200, "/read": 200, "/debug": 200, "/hidden": 200, "/off": 405, "/none": 404}
    no_debugging = {**secure, "/debug": 405, "/hidden": 404}
    read_only = {**no_debugging, "/open": 404, "/secure": 404}
    for access, debugging, expected in [
        (Permit(), True, secure),
        (Permit(), False, no_debugging),
        (None, True, read_only),
        (None, False, read_only),
    ]:
        for path, status in expected.items():
            response = await get(clock, routes, path, access=access, debugging=debugging)
            assert response.status == status, (path, access, debugging)
            assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert (await get(clock, routes, "/debug", debugging=False)).text == f"{DEBUG_DISABLED}\n"
    assert (await get(clock, routes, "/off", method="POST")).text == "switched off.\n"
    assert (await get(clock, routes, "/read", method="POST")).status == 405


async def test_rejected_path_replaces_further_routes_of_the_path(clock):
    routes = [route("/a", rejection="off"), Route("POST", "/a", ok), route("/b")]

    assert (await get(clock, routes, "/a", method="POST", access=Permit())).status == 405
    assert (await get(clock, routes, "/b", access=Permit())).status == 200


async def test_denied_requests_do_not_reach_their_handler(clock, monkeypatch):
    called = []

    async def handler(request):
        called.append(request.path)
        return web.Response()

    routes = [route("/a", handler), route("/open", handler, Exposure.OPEN)]
    response = await get(clock, routes, "/a", access=Permit("nobody"))
    assert (response.status, response.text, called) == (403, "Forbidden", [])
    assert (await get(clock, routes, "/unknown", access=Permit("nobody"))).status == 403
    assert (await get(clock, routes, "/open", access=Permit("nobody"))).status == 200
    monkeypatch.setattr(server_app, "ACCESS_SECONDS", 0)

    class Slow(Permit):
        async def check(self, request, route):
            await clock.sleep(1)

    response = await get(clock, routes, "/a", access=Slow())
    assert (response.status, response.text) == (500, "Authorization error: timeout")


async def test_errors_of_handlers_are_reported_with_their_status(clock):
    async def missing(request):
        raise NotFound('container "x" does not exist')

    async def failing(request):
        raise NodeAgentError("broken")

    async def wrong(request):
        return "text"

    routes = [route("/missing", missing), route("/failing", failing), route("/wrong", wrong)]
    for path, expected in [("/missing", (404, 'container "x" does not exist\n')), ("/failing", (500, "broken\n"))]:
        response = await get(clock, routes, path, access=Permit())
        assert (response.status, response.text) == expected
    with pytest.raises(TypeError, match="of /wrong returned 'text'"):
        await get(clock, routes, "/wrong", access=Permit())


async def test_requests_of_streaming_routes_are_recorded_and_logged(clock, caplog):
    caplog.set_level(logging.INFO, "nodeagent.server.app")

    async def stream(request):
        SENT_BYTES.get().count += 7
        return web.Response(text="ok")

    async def broken(request):
        raise ZeroDivisionError

    routes = [
        route("/logs/{namespace}/{pod}/{container}", stream, streams=True),
        route("/plain", streams=True),
        route("/broken", broken, streams=True),
        route("/other"),
    ]
    queue = Queue()
    await get(clock, routes, "/logs/ns/web/main?follow=1", access=Permit(), queue=queue)
    first, last = queue.records
    assert (first.stage, last.stage, first.id) == ("RequestReceived", "ResponseComplete", last.id)
    assert (last.namespace, last.pod, last.container, last.uri) == ("ns", "web", "main", "/logs/ns/web/main?follow=1")
    assert (last.user, last.status, last.sent_bytes, last.user_agent) == (User("jane"), 200, 7, "test")
    (line,) = caplog.records
    assert (line.message, line.user, line.status, line.bytes) == ("Served", "jane", 200, 7)

    queue.records.clear()
    await get(clock, routes, "/plain", access=Permit("nobody"), queue=queue)
    (rejected,) = queue.records
    assert (rejected.stage, rejected.user, rejected.status) == ("ResponseComplete", User("nobody"), 403)
    queue.records.clear()
    await get(clock, routes, "/plain", access=Permit(), queue=queue)
    assert queue.records[-1].sent_bytes == 2
    with pytest.raises(ZeroDivisionError):
        await get(clock, routes, "/broken", access=Permit(), queue=queue)
    assert (queue.records[-1].status, queue.records[-1].sent_bytes) == (0, 0)
    assert caplog.records[-1].status == "aborted"

    queue.records.clear()
    caplog.clear()
    await get(clock, routes, "/other", access=Permit(), queue=queue)
    assert (queue.records, caplog.records) == ([], [])
    silent = Queue(needed=False)
    await get(clock, routes, "/plain", access=Permit(), queue=silent)
    assert (silent.records, caplog.records) == ([], [])


async def test_requests_are_counted_by_the_first_segment_of_their_route(clock):
    routes = [
        route("/"),
        route("/metrics/probes"),
        route("/metrics/{name}/all"),
        route("/pods/{name}"),
        route("/logs/", streams=True),
    ]
    for path, segment, long_running in [
        ("/", "root", "false"),
        ("/metrics/probes", "metrics/probes", "false"),
        ("/metrics/x/all", "metrics", "false"),
        ("/pods/x", "pods", "false"),
        ("/logs/", "logs", "true"),
        ("/unknown", "other", "false"),
    ]:
        labels = ("GET", segment, "readwrite", long_running)
        before = REQUESTS.value(*labels)
        await get(clock, routes, path, access=Permit())
        assert REQUESTS.value(*labels) == before + 1, path
    read_only = ("GET", "other", "readonly", "false")
    before = REQUESTS.value(*read_only)
    await get(clock, routes, "/pods/x")
    assert REQUESTS.value(*read_only) == before + 1


async def test_disconnected_client_is_not_an_error_of_the_server(clock):
    async def broken(request):
        raise ConnectionResetError

    app = build_app([route("/a", broken)], access=Permit(), debugging=True, recorder=AccessRecorder(clock, Queue()))
    app.freeze()
    for closing in (True, False):
        request = make_mocked_request("GET", "/a", app=app)
        request.transport.is_closing = lambda closing=closing: closing
        if closing:
            assert (await app._handle(request)).status == 200
        else:
            with pytest.raises(ConnectionResetError):
                await app._handle(request)
