"""Tests for the responses of the health port."""

import asyncio

import pytest

from nodeagent.server import health
from nodeagent.server.health import HealthServer


class Writer:
    def __init__(self):
        self.data, self.closed = b"", False

    def write(self, data):
        self.data += data

    async def drain(self):
        pass

    def close(self):
        self.closed = True


async def responses(clock, checks, *requests):
    """Return status and body of each response."""
    reader, writer = asyncio.StreamReader(), Writer()
    reader.feed_data("".join(f"{request} HTTP/1.1\r\nHost: x\r\n\r\n" for request in requests).encode())
    reader.feed_eof()
    await HealthServer("127.0.0.1", 0, checks, clock)._serve(reader, writer)
    assert writer.closed
    found = []
    for part in writer.data.decode().split("HTTP/1.1 ")[1:]:
        head, _, body = part.partition("\r\n\r\n")
        found.append((int(head.split()[0]), body))
    return found


HEALTHY = {"ping": lambda: "", "pleg": lambda: ""}
FAILING = {"ping": lambda: "", "pleg": lambda: "was last active 5m ago"}
DETAILS = "[+]ping ok\n[+]pleg ok\nhealthz check passed\n"
FAILED = "[+]ping ok\n[-]pleg failed: was last active 5m ago\nhealthz check failed\n"


@pytest.mark.parametrize("checks", [HEALTHY, FAILING])
async def test_health_is_that_of_all_checks(clock, checks):
    healthy = checks is HEALTHY
    requests = [
        ("GET /healthz", (200, "ok") if healthy else (500, FAILED)),
        ("GET /healthz?verbose", (200, DETAILS) if healthy else (500, FAILED)),
        ("GET /healthz?verbose=1", (200, DETAILS) if healthy else (500, FAILED)),
        ("GET /healthz/ping", (200, "ok")),
        ("HEAD /healthz/ping", (200, "")),
        ("POST /healthz", (405, "405: Method Not Allowed\n")),
        ("POST /healthz/ping", (405, "405: Method Not Allowed\n")),
        ("GET /metrics", (404, "404 page not found\n")),
        ("POST /", (404, "404 page not found\n")),
    ]

    found = await responses(clock, checks, *(request for request, _ in requests))

    assert found == [response for _, response in requests]


async def test_invalid_request_closes_the_connection(clock):
    ((status, text),) = await responses(clock, HEALTHY, "nonsense", "GET /healthz")
    assert status == 400
    assert text


async def test_port_in_use_is_retried_and_logged_once(clock, caplog, monkeypatch):
    failures = [OSError("in use"), OSError("in use")]

    def bind(_address, _port):
        if failures:
            raise failures.pop()
        return "socket"

    monkeypatch.setattr(health, "bind", bind)
    task = asyncio.create_task(HealthServer("127.0.0.1", 1, {}, clock)._bind())
    await clock.advance(0)
    for _ in range(2):
        assert not task.done()
        await clock.advance(health.RETRY_SECONDS)
    assert await task == "socket"
    assert caplog.messages == ["Failed to start healthz server"]
