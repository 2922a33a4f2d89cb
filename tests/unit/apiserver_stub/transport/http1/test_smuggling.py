"""Tests for requests to the API server that a proxy could frame differently."""

from __future__ import annotations

import contextlib

import pytest

from apiserver_stub.transport.http import HttpRequest, MalformedBody
from tests.request_smuggling import REQUESTS
from tests.unit.apiserver_stub.transport.http1.test_connection import serving


@pytest.mark.parametrize("request_bytes", REQUESTS.values(), ids=REQUESTS)
async def test_ambiguous_request_ends_the_connection(request_bytes: bytes) -> None:
    served: list[str] = []

    async def handle(http: HttpRequest) -> None:
        served.append(http.path)
        with contextlib.suppress(MalformedBody):
            await http.read_body(1 << 20)
        await http.respond(200, [], [b"ok"])

    async with serving(handle) as client:
        client.writer.write(request_bytes)
        await client.rest()

    assert "/smuggled" not in served
