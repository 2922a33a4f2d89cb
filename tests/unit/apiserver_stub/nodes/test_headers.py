"""Tests for the headers of forwarded requests and returned responses."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from apiserver_stub.nodes.headers import forwarded, returned
from nodeagent.base import tracing
from tests.unit.apiserver_stub.transport.fake_http import FakeHttpRequest

FROM = {"X-Forwarded-For": "192.0.2.1"}
TOKEN = "base64url.bearer.authorization.k8s.io.eA"


def forward(headers: Mapping[str, str], *, upgrade: bool = False, remote: str | None = "192.0.2.1") -> dict[str, str]:
    http = FakeHttpRequest(headers=headers)
    http.remote = remote
    return dict(forwarded(http, upgrade=upgrade))


def test_address_of_the_client_is_added_to_those_of_proxies() -> None:
    assert forward({}) == FROM
    assert forward({"x-forwarded-for": "198.51.100.1"}) == {"X-Forwarded-For": "198.51.100.1, 192.0.2.1"}
    assert forward({"X-Forwarded-For": "198.51.100.1"}, remote=None) == {"X-Forwarded-For": "198.51.100.1"}
    assert forward({}, remote=None) == {}


def test_hop_by_hop_headers_are_forwarded_only_with_upgrades() -> None:
    headers = {"Connection": "Upgrade", "Upgrade": "x", "TE": "trailers", "A": "b"}

    assert forward(headers) == {"A": "b", **FROM}
    assert forward(headers, upgrade=True) == {**headers, **FROM}


@pytest.mark.parametrize(
    ("protocols", "expected"),
    [("a, b", "a, b"), (f"{TOKEN}, a", "a"), (TOKEN, None)],
)
def test_token_in_the_subprotocols_is_not_forwarded(protocols: str, expected: str | None) -> None:
    found = forward({"Sec-WebSocket-Protocol": protocols}, upgrade=True)

    assert found.get("Sec-WebSocket-Protocol") == expected


def test_trace_context_is_replaced_while_requests_are_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = {"traceparent": "theirs", "Tracestate": "theirs", "baggage": "theirs"}

    assert forward(sent) == {**sent, **FROM}
    monkeypatch.setattr(tracing, "outgoing", lambda: {"traceparent": "ours"})
    assert forward(sent) == {"traceparent": "ours", **FROM}


def test_hop_by_hop_headers_of_responses_are_not_returned() -> None:
    fields = CIMultiDict(
        {"Connection": "close", "Transfer-Encoding": "chunked", "Content-Length": "1", "Set-Cookie": "a"}
    )
    fields.add("Set-Cookie", "b")

    found = returned(CIMultiDictProxy(fields))

    assert list(found.items()) == [("Content-Length", "1"), ("Set-Cookie", "a"), ("Set-Cookie", "b")]
