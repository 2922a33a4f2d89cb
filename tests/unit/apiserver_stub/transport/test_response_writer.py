"""Tests for response headers."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web
from aiohttp.http import SERVER_SOFTWARE

from apiserver_stub.transport.response_writer import ApiRequest, truncated_warnings, warning


@pytest.mark.parametrize(("given", "left"), [(SERVER_SOFTWARE, None), ("metrics-server", "metrics-server")])
async def test_library_server_header_is_removed_and_others_are_kept(given: str, left: Any) -> None:
    response = web.Response(headers={"Server": given})

    await ApiRequest._prepare_hook(ApiRequest.__new__(ApiRequest), response)

    assert response.headers.get("Server") == left


def test_warnings_with_control_characters_are_dropped() -> None:
    assert truncated_warnings(["a\nb", "", 'é "c"', "c"]) == ['é "c"', "c"]
    assert warning('a "b" \\') == '299 - "a \\"b\\" \\\\"'
