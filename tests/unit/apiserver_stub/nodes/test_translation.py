"""Tests for commands over WebSockets that are translated to SPDY: streams, handshakes and counts."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.nodes import translation as module
from apiserver_stub.nodes.endpoint import Endpoint
from apiserver_stub.nodes.translation import requests_stream_close, translate
from apiserver_stub.transport import websocket
from tests.unit.apiserver_stub.transport.fake_http import FakeHttpRequest
from tests.unit.apiserver_stub.transport.test_websocket import HANDSHAKE

from .backend import Backend, store_of, stream_to

PROTOCOL = "Sec-WebSocket-Protocol"
OFFER = {**HANDSHAKE, PROTOCOL: "v5.channel.k8s.io"}


class FakeSession:
    """Session that ends immediately, and records the streams of the last one."""

    streams: Any = None
    failed = False
    error: Exception | None = None

    def __init__(self, client: Any, streams: Any, peer: str) -> None:
        FakeSession.streams, self.outcome = streams, SimpleNamespace(failed=self.failed)

    async def run(self, connect: Any) -> None:
        if self.error is not None:
            raise self.error


@pytest.fixture(autouse=True)
def session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TranslatedSession", FakeSession)
    monkeypatch.setattr(websocket, "_CLOSE_SECONDS", 0)


async def run(query: str = "", headers: Any = None) -> tuple[Any, Any, Counter[int]]:
    """Return the response, the request and the counts."""
    counts: Counter[int] = Counter()
    stream = stream_to(Backend(), store_of(), f"/x?{query}", "GET", headers or OFFER)
    return await translate(stream, Endpoint("192.0.2.1", 10250), "/exec", counts), stream, counts


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("stdin=1&stdout=1&stderr=1&tty=1", (True, True, False, True)),
        ("stdout=1&stderr=1", (False, True, True, False)),
        ("tty=1", (False, False, False, True)),
        ("", (False, False, False, False)),
    ],
)
async def test_terminal_has_no_separate_error_stream(query: str, expected: tuple[bool, ...]) -> None:
    response, stream, counts = await run(query)

    found = FakeSession.streams
    assert (found.stdin, found.stdout, found.stderr, found.tty) == expected
    assert (response, stream.started, stream.code) == (None, True, 101)
    assert stream.http.sent_headers[PROTOCOL] == "v5.channel.k8s.io"
    assert counts == {200: 1}


@pytest.mark.parametrize(("failed", "code"), [(False, 200), (True, 500)])
async def test_commands_are_counted_by_the_result(monkeypatch: pytest.MonkeyPatch, failed: bool, code: int) -> None:
    monkeypatch.setattr(FakeSession, "failed", failed)
    monkeypatch.setattr(FakeSession, "error", ConnectionResetError("the client has disconnected"))

    assert (await run())[2] == {code: 1}


async def test_invalid_handshake_is_counted_and_rejected() -> None:
    response, stream, counts = await run(headers={**OFFER, "Sec-WebSocket-Version": "1"})

    assert (response.code, stream.started, counts) == (400, False, {400: 1})


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (OFFER, True),
        ({**OFFER, PROTOCOL: "v4.channel.k8s.io, v5.channel.k8s.io"}, True),
        ({**OFFER, PROTOCOL: "v4.channel.k8s.io"}, False),
        (HANDSHAKE, False),
        ({**OFFER, "Upgrade": "SPDY/3.1"}, False),
    ],
)
def test_client_requests_the_translation_by_its_protocol(headers: dict[str, str], expected: bool) -> None:
    assert requests_stream_close(FakeHttpRequest("GET", "/x", headers)) is expected
