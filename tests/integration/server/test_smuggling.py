"""Tests for requests to the agent that a proxy could frame differently."""

from __future__ import annotations

import asyncio

from tests.integration.server.conftest import serving
from tests.integration.server.test_serving import raw
from tests.request_smuggling import REQUESTS


async def test_ambiguous_request_gets_a_single_response(pki, tmp_path):
    async with serving(pki, tmp_path) as node:
        responses = await asyncio.gather(*(raw(node, [request]) for request in REQUESTS.values()))
        assert (await node.fetch("/healthz", token="admin-token"))[0] == 200

    served = {name: response.count(b"HTTP/1.") for name, response in zip(REQUESTS, responses, strict=True)}
    assert {name: count for name, count in served.items() if count > 1} == {}
