"""Tests for the web page: which requests are for its files."""

from __future__ import annotations

import pytest

from apiserver_stub.endpoints.page import Page
from tests.unit.apiserver_stub.transport.fake_http import FakeHttpRequest

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*"}


@pytest.mark.parametrize(
    ("method", "target", "headers", "content_type"),
    [
        ("GET", "/", BROWSER, "text/html; charset=utf-8"),
        ("HEAD", "/", BROWSER, "text/html; charset=utf-8"),
        ("GET", "/?namespace=default", BROWSER, "text/html; charset=utf-8"),
        ("GET", "/", {"Accept": "application/json"}, None),
        ("GET", "/", {}, None),
        ("POST", "/", BROWSER, None),
        ("GET", "/ui/page.js", {}, "text/javascript; charset=utf-8"),
        ("GET", "/ui/page.js?v=1", {}, "text/javascript; charset=utf-8"),
        ("POST", "/ui/page.js", {}, None),
        ("GET", "/ui/missing.js", {}, None),
        ("GET", "/api", BROWSER, None),
        ("GET", "/ui", BROWSER, None),
    ],
)
def test_page_is_sent_to_browsers(method: str, target: str, headers: dict[str, str], content_type: str | None) -> None:
    response = Page().respond(FakeHttpRequest(method, target, headers))

    assert (None if response is None else response.content_type) == content_type
    if response is not None:
        assert response.pieces[0]
        assert "Content-Security-Policy" in response.headers
