"""Tests for upgrades to agents, and for agents that respond with an error, a redirect or invalid data."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.nodes import upgrade as module
from apiserver_stub.nodes.endpoint import Endpoint
from apiserver_stub.nodes.upgrade import upgrade

from .backend import serving, store_of, stream_to

ENDPOINT = Endpoint("node", 10250)
UPGRADE = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}


class Line:
    """Transport that records what is sent and whether it was closed."""

    def __init__(self) -> None:
        self.sent, self.closed = b"", False

    def write(self, data: bytes) -> None:
        self.sent += data

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def set_write_buffer_limits(self, high: int) -> None:
        pass


class Agent:
    """Agents that return *response* to each connection."""

    def __init__(self, response: bytes) -> None:
        self.line, self._response = Line(), response

    async def connect(self, factory: Callable[[], Any], _endpoint: Any) -> Any:
        protocol = factory()
        protocol.connection_made(self.line)
        protocol.data_received(self._response)
        return protocol


def exec_to(agent: Agent) -> Any:
    """Return an exec request, whose client must not be connected to *agent*."""

    def connected(*_: Any) -> None:
        pytest.fail("the client is connected to the agent")

    http = SimpleNamespace(method="POST", headers=UPGRADE, remote="", upgrade=connected)
    return SimpleNamespace(http=http, agents=agent, begin=connected)


async def test_failed_upgrade_leaves_no_connection_to_the_agent() -> None:
    agent = Agent(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\nno" + b"HTTP/1.1 200 OK\r\n\r\n")

    response = await upgrade(exec_to(agent), SimpleNamespace(authority="node:10250"), "/exec/default/web/main")

    assert response is not None
    assert (response.code, b"".join(response.pieces)) == (400, b"no")
    assert agent.line.closed


@pytest.mark.parametrize("status", ["200 OK", "302 Found", "307 Temporary Redirect"])
async def test_response_without_upgrade_is_an_error_without_its_content(status: str) -> None:
    head = f"HTTP/1.1 {status}\r\nLocation: https://other.example/\r\nContent-Length: 6\r\n\r\nsecret"
    agent = Agent(head.encode())

    with pytest.raises(ApiError) as error:
        await upgrade(exec_to(agent), SimpleNamespace(authority="node:10250"), "/exec/default/web/main")

    assert (error.value.code, error.value.message) == (500, f"invalid upgrade response: status code {status[:3]}")
    assert agent.line.closed


@pytest.mark.parametrize(
    ("response", "kind", "body", "retry"),
    [
        (
            b"Content-Type: text/x\r\nRetry-After: 3\r\nContent-Length: 2\r\n\r\nnone",
            "text/x",
            b"no",
            {"Retry-After": "3"},
        ),
        (b"Content-Length: x\r\n\r\nnone", "text/plain; charset=utf-8", b"none", {}),
        (b"\r\nnone", "text/plain; charset=utf-8", b"none", {}),
    ],
)
async def test_error_of_the_agent_is_returned(response: bytes, kind: str, body: bytes, retry: dict[str, str]) -> None:
    async with serving(b"HTTP/1.1 503 Service Unavailable\r\n" + response, closes=True) as backend:
        stream = stream_to(backend, store_of(), "/x", "POST", UPGRADE)
        rendered = await upgrade(stream, ENDPOINT, "/exec")

    assert rendered is not None
    assert (rendered.code, rendered.content_type, b"".join(rendered.pieces)) == (503, kind, body)
    assert rendered.headers == retry


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        ({"error": ConnectionRefusedError(111, "x")}, 500, "error dialing backend: dial tcp node:10250: connect: "),
        ({"response": b"HTTP/1.1 what\r\n\r\n"}, 502, "the server at node:10250 sent a response that is not HTTP"),
        ({"closes": True}, 502, "the server at node:10250 sent no valid response"),
    ],
)
async def test_agent_without_a_valid_response_is_an_error(options: Any, code: int, text: str) -> None:
    async with serving(**options) as backend:
        with pytest.raises(ApiError) as error:
            await upgrade(stream_to(backend, store_of(), "/x", "POST", UPGRADE), ENDPOINT, "/exec")

    assert error.value.code == code
    assert error.value.message.startswith(text)


async def test_agent_that_does_not_respond_in_time_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HEAD_SECONDS", 0)
    async with serving() as backend:
        with pytest.raises(ApiError, match="did not respond in time") as error:
            await upgrade(stream_to(backend, store_of(), "/x", "POST", UPGRADE), ENDPOINT, "/exec")

    assert error.value.code == 504


async def test_client_is_connected_to_the_agent_until_it_closes() -> None:
    head = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"
    async with serving(head + b"early", closes=True) as backend:
        stream = stream_to(backend, store_of(), "/x", "POST", UPGRADE)
        http: Any = stream.http
        rendered = await upgrade(stream, ENDPOINT, "/exec", caller=[("X-Who", "alice")])

    assert rendered is None
    assert backend.request.headers["X-Who"] == "alice"
    assert (stream.code, bytes(http.line.written), http.line.closing) == (101, head + b"early", True)
