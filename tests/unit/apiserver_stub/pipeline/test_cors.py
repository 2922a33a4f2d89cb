"""Tests for the headers for browsers."""

from __future__ import annotations

import pytest

from apiserver_stub.pipeline.cors import CorsAndHsts
from tests.unit.apiserver_stub.transport.fake_http import FakeHttpRequest


@pytest.mark.row("opt.cors-allowed-origins")
@pytest.mark.parametrize(
    ("method", "origin", "allowed", "preflight"),
    [
        ("GET", "https://a.example", True, False),
        ("OPTIONS", "https://a.example", True, True),
        ("OPTIONS", "https://b.test", False, False),
        ("OPTIONS", "", False, False),
    ],
)
def test_allowed_origins_receive_headers(method: str, origin: str, *, allowed: bool, preflight: bool) -> None:
    http = FakeHttpRequest(method, headers={"Origin": origin} if origin else {})

    found = CorsAndHsts([r"//c\.", r"\.example$"], []).begin(http)

    assert (found is not None) is preflight
    assert found is None or (found.code, found.pieces) == (204, [])
    assert http.response_headers.get("Access-Control-Allow-Origin") == (origin if allowed else None)
    assert ("Access-Control-Allow-Methods" in http.response_headers) is allowed


@pytest.mark.row("opt.cors-allowed-origins")
def test_request_without_an_origin_has_no_headers() -> None:
    http = FakeHttpRequest()

    assert CorsAndHsts([""], []).begin(http) is None
    assert http.response_headers == {}


@pytest.mark.row("opt.strict-transport-security-directives")
@pytest.mark.parametrize(("directives", "expected"), [([], None), (["max-age=1", "preload"], "max-age=1; preload")])
def test_strict_transport_security_has_all_directives(directives: list[str], expected: str | None) -> None:
    http = FakeHttpRequest()

    CorsAndHsts([], directives).begin(http)

    assert http.response_headers.get("Strict-Transport-Security") == expected
