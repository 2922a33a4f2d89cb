"""Tests for upgrades to agents that respond with an error, a redirect or data for another request."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.nodes.upgrade import upgrade

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


def stream_to(agent: Agent) -> Any:
    """Return an exec request, whose client must not be connected to *agent*."""

    def connected(*_: Any) -> None:
        pytest.fail("the client is connected to the agent")

    http = SimpleNamespace(method="POST", headers=UPGRADE, remote="", upgrade=connected)
    return SimpleNamespace(http=http, agents=agent, begin=connected)


async def test_failed_upgrade_leaves_no_connection_to_the_agent() -> None:
    agent = Agent(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\nno" + b"HTTP/1.1 200 OK\r\n\r\n")

    response = await upgrade(stream_to(agent), SimpleNamespace(authority="node:10250"), "/exec/default/web/main")

    assert response is not None
    assert (response.code, b"".join(response.pieces)) == (400, b"no")
    assert agent.line.closed


@pytest.mark.parametrize("status", ["200 OK", "302 Found", "307 Temporary Redirect"])
async def test_response_without_upgrade_is_an_error_without_its_content(status: str) -> None:
    head = f"HTTP/1.1 {status}\r\nLocation: https://other.example/\r\nContent-Length: 6\r\n\r\nsecret"
    agent = Agent(head.encode())

    with pytest.raises(ApiError) as error:
        await upgrade(stream_to(agent), SimpleNamespace(authority="node:10250"), "/exec/default/web/main")

    assert (error.value.code, error.value.message) == (500, f"invalid upgrade response: status code {status[:3]}")
    assert agent.line.closed
