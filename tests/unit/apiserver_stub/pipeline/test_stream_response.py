"""Tests for responses to streams: audit, metrics, complete responses and the stop of the server."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.apimachinery.request import Query, parse_path
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.lifecycle import Lifecycle
from apiserver_stub.nodes.stream import Stream, StreamHandler
from apiserver_stub.pipeline.request_metrics import RequestMetrics
from apiserver_stub.pipeline.stream_response import StreamResponder
from apiserver_stub.subresources import Handlers
from apiserver_stub.telemetry.exposition import Choice, Page
from apiserver_stub.transport.rendered import Rendered
from tests.unit.apiserver_stub.transport.fake_http import FakeHttpRequest

POD = "/api/v1/namespaces/default/pods/p/log"
RESOURCE: Any = SimpleNamespace(group="", plural="pods", subresource=lambda name: name)


class Recorder:
    """Audit context and tracing of a request, which record its stages and code."""

    def __init__(self) -> None:
        self.stages: list[str | int] = []
        self.traced: list[tuple[int, str]] = []

    async def started(self, code: int) -> None:
        self.stages += ["started", code]

    async def ended(self) -> None:
        self.stages.append("ended")

    def responded(self, http: object, code: int, verb: str) -> None:
        self.traced.append((code, verb))


class Harness:
    """Responder with the handler *handler* of pod logs."""

    def __init__(self, handler: StreamHandler, *, records: bool = True) -> None:
        self.lifecycle, self.metrics = Lifecycle(), RequestMetrics()
        self.recorder: Any = Recorder() if records else None
        self.http = FakeHttpRequest("GET", POD)
        unused: Any = None
        handlers = Handlers(streams={("", "pods", "log"): handler})
        self.responder = StreamResponder(unused, unused, handlers, self.lifecycle, self.metrics, self.recorder)

    async def run(self) -> None:
        query = Query("")
        await self.responder.run(self.http, parse_path("GET", POD, query), query, RESOURCE, self.recorder)

    @property
    def code(self) -> str:
        """The code label of the only counted request, empty without one."""
        page = Page(Choice())
        self.metrics.show_on(page)
        lines = [line for line in page.text()[0].decode().splitlines() if line.startswith("apiserver_request_total{")]
        assert all('verb="CONNECT"' in line for line in lines)
        return lines[0].partition('code="')[2].partition('"')[0] if lines else ""


async def streams(stream: Stream) -> Rendered | None:
    await stream.begin(206)
    stream.http.start(206, [])
    return None


async def upgrades(stream: Stream) -> Rendered | None:
    await stream.begin(101)
    return None


async def completes(stream: Stream) -> Rendered | None:
    return Rendered(502, "text/plain", [b"no"])


async def waits(stream: Stream) -> Rendered | None:
    await asyncio.get_running_loop().create_future()
    return None


@pytest.mark.parametrize(
    ("handler", "stages", "code", "traced", "body"),
    [
        (streams, ["started", 206, "ended"], "206", 206, b""),
        (upgrades, ["started", 101, "ended"], "0", 101, b""),
        (completes, ["started", 502, "ended"], "502", 502, b"no"),
    ],
)
async def test_response_is_audited_counted_and_traced(
    handler: StreamHandler, stages: list[Any], code: str, traced: int, body: bytes
) -> None:
    harness = Harness(handler)

    await harness.run()

    assert (harness.recorder.stages, harness.code, harness.http.sent) == (stages, code, body)
    assert harness.recorder.traced == [(traced, "get")]
    assert harness.metrics.watches == 0


@pytest.mark.parametrize(("handler", "status"), [(streams, 206), (completes, 502)])
async def test_response_needs_no_audit(handler: StreamHandler, status: int) -> None:
    harness = Harness(handler, records=False)

    await harness.run()

    assert harness.http.status == status


async def test_rejected_stream_has_no_response() -> None:
    async def rejects(stream: Stream) -> Rendered | None:
        raise ApiError(404, "NotFound", "no such pod")

    harness = Harness(rejects)

    with pytest.raises(ApiError, match="no such pod"):
        await harness.run()
    assert (harness.recorder.stages, harness.code, harness.metrics.watches) == ([], "", 0)


async def test_stop_of_the_server_ends_the_stream() -> None:
    harness = Harness(waits)
    running = asyncio.ensure_future(harness.run())
    await asyncio.sleep(0)
    during = harness.metrics.watches
    harness.lifecycle.stopping.set()

    with pytest.raises(ConnectionResetError, match="the server stops"):
        await running
    assert (during, harness.metrics.watches) == (1, 0)


async def test_disconnect_of_the_client_ends_the_stream() -> None:
    harness = Harness(waits)
    running = asyncio.ensure_future(harness.run())
    await asyncio.sleep(0)
    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running
    assert harness.metrics.watches == 0


async def test_cancelled_handler_is_not_a_stop_of_the_server() -> None:
    async def cancelled(stream: Stream) -> Rendered | None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await Harness(cancelled).run()
