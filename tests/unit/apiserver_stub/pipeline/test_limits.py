"""Tests for the limits of request bodies."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.apimachinery.request import ANONYMOUS, Query, RequestInfo
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.pipeline.limits import MAX_BODY_BYTES, Limits, LimitSettings
from apiserver_stub.pipeline.request_metrics import RequestMetrics
from apiserver_stub.transport.http import MalformedBody
from apiserver_stub.transport.rendered import Rendered
from tests.unit.apiserver_stub.transport.fake_http import FakeHttpRequest


class Echo:
    """Dispatcher that responds with the body of the request."""

    async def dispatch(self, request: Any, resource: Any) -> Rendered:
        return Rendered(200, "text/plain", [request.body])


class Malformed(FakeHttpRequest):
    """Request with an invalid chunk size."""

    async def read_body(self, limit: int) -> bytes:
        raise MalformedBody("invalid chunk size")


async def limited(http: FakeHttpRequest) -> bytes:
    """Return the body that the dispatcher receives."""
    info = RequestInfo(http.method.lower(), "/")
    fields = {"info": info, "method": http.method, "query": Query(""), "user": ANONYMOUS, "afterwards": [], "body": b""}
    request: Any = SimpleNamespace(**fields)
    limits = Limits(LimitSettings(), Echo(), RequestMetrics())  # type: ignore[arg-type]
    return b"".join((await limits.limited(http, request, None, None)).pieces)


@pytest.mark.parametrize(("method", "received"), [("POST", b"a"), ("PATCH", b"a"), ("GET", b"")])
async def test_body_is_read_for_methods_that_modify(method: str, received: bytes) -> None:
    assert await limited(FakeHttpRequest(method, content=b"a")) == received


@pytest.mark.parametrize(
    ("http", "code"),
    [(FakeHttpRequest("POST", content=bytes(MAX_BODY_BYTES + 1)), 413), (Malformed("POST", content=b"a"), 400)],
    ids=["too long", "malformed"],
)
async def test_unusable_body_is_rejected(http: FakeHttpRequest, code: int) -> None:
    with pytest.raises(ApiError) as raised:
        await limited(http)

    assert raised.value.code == code
