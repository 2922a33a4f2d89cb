"""Tests for the reverse proxy: forwarded requests, responses, redirects and failures of backends."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.nodes.endpoint import Endpoint
from apiserver_stub.nodes.reverse_proxy import relay, relay_text
from tests.unit.apiserver_stub.transport.test_websocket import HANDSHAKE, masked

from .backend import reply, serving, store_of, stream_to

BACKEND = Endpoint("192.0.2.7", 8080)
PREFIX = "/api/v1/nodes/a/proxy"
UNHEARD = ConnectionRefusedError(errno.ECONNREFUSED, "refused")


async def relayed(
    response: bytes, method: str = "GET", headers: Any = None, content: bytes = b"", **options: Any
) -> Any:
    """Return the backend, and the request with its response."""
    async with serving(response) as backend:
        stream = stream_to(backend, store_of(), f"{PREFIX}/x?y=1", method, headers, content)
        rendered = await relay(stream, BACKEND, "/x?y=1", PREFIX, **options)
    return backend, stream.http, rendered


async def test_request_is_forwarded_with_its_body_and_without_credentials() -> None:
    headers = {
        "Authorization": "Bearer x",
        "Cookie": "a=b",
        "Proxy-Authorization": "x",
        "Impersonate-User": "x",
        "X-Remote-User": "x",
        "Connection": "keep-alive",
        "TE": "trailers",
        "Expect": "100-continue",
        "X-Forwarded-For": "198.51.100.1",
        "Content-Length": "4",
        "Content-Type": "text/x",
        "X-Own": "1",
    }
    backend, http, _ = await relayed(
        reply("201 Created", b"done", Content_Type="text/y", Connection="close", X_Theirs="2"),
        "POST",
        headers,
        b"body",
        caller=[("X-Remote-User", "alice")],
    )

    request = backend.request
    assert (request.method, request.target, request.body) == ("POST", "/x?y=1", b"body")
    sent = {name.lower(): value for name, value in request.headers.items()}
    assert sent == {
        "host": "192.0.2.7:8080",
        "x-forwarded-for": "198.51.100.1, 192.0.2.1",
        "x-forwarded-uri": f"{PREFIX}/x",
        "x-remote-user": "alice",
        "content-length": "4",
        "content-type": "text/x",
        "x-own": "1",
    }
    assert (http.status, http.reason, http.sent, http.completed) == (201, "Created", b"done", True)
    fields = {"Content-Length": "4", "Content-Type": "text/y", "X-Theirs": "2"}
    assert dict(http.sent_headers) == fields


async def test_response_without_a_reason_is_returned() -> None:
    _, http, _ = await relayed(reply("200 "))

    assert (http.status, http.reason) == (200, "")


async def test_request_without_a_body_has_no_length() -> None:
    backend, _, _ = await relayed(reply("200 OK"))

    assert "Content-Length" not in backend.request.headers
    assert "Transfer-Encoding" not in backend.request.headers


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("/login?x=1#top", f"{PREFIX}/login?x=1#top"),
        ("http://192.0.2.7:8080/login", f"{PREFIX}/login"),
        ("//192.0.2.7:8080/login", f"{PREFIX}/login"),
        ("http://192.0.2.7:8081/login", "http://192.0.2.7:8081/login"),
        ("https://other.example/login", "https://other.example/login"),
        ("login", "login"),
    ],
)
async def test_redirect_within_the_backend_stays_on_the_proxy(location: str, expected: str) -> None:
    _, http, _ = await relayed(reply("302 Found", Location=location))

    assert (http.status, http.sent_headers["Location"]) == (302, expected)


@pytest.mark.parametrize(
    ("status", "location", "allowed"),
    [
        ("300 Multiple Choices", "/x", False),
        ("302 Found", "/x", False),
        ("399 Last", "/x", False),
        ("302 Found", "", True),
        ("201 Created", "/x", True),
        ("400 Bad Request", "/x", True),
    ],
)
async def test_redirects_of_some_backends_are_rejected(status: str, location: str, allowed: bool) -> None:
    fields = {"Location": location} if location else {}
    _, http, rendered = await relayed(reply(status, **fields), redirects=False)

    if allowed:
        assert (http.status, rendered) == (int(status[:3]), None)
    else:
        text = b"the backend attempted to redirect this request, which is not permitted"
        assert (rendered.code, b"".join(rendered.pieces), http.status) == (502, text, 0)


async def test_upgrade_is_forwarded_as_such() -> None:
    headers = {"Connection": "Upgrade", "Upgrade": "x"}
    backend, _, rendered = await relayed(reply("403 Forbidden", b"no"), "POST", headers, caller=[("X-Who", "alice")])

    assert (rendered.code, b"".join(rendered.pieces)) == (403, b"no")
    assert (backend.request.headers["Upgrade"], backend.request.headers["X-Who"]) == ("x", "alice")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"error": UNHEARD},
            "error trying to reach service: dial tcp 192.0.2.7:8080: connect: connection refused",
        ),
        ({"closes": True}, "error trying to reach service: Server disconnected"),
    ],
)
async def test_backend_that_does_not_respond_is_unavailable(options: Any, text: str) -> None:
    async with serving(**options) as backend:
        with pytest.raises(ApiError) as error:
            await relay(stream_to(backend, store_of(), f"{PREFIX}/x"), BACKEND, "/x", PREFIX)

    assert (error.value.code, error.value.message) == (503, text)


async def test_broken_response_closes_the_connection_of_the_client() -> None:
    part = reply("200 OK", b"part", Content_Length="100")
    async with serving(part, closes=True) as backend:
        stream = stream_to(backend, store_of(), f"{PREFIX}/x")
        with pytest.raises(ConnectionResetError):
            await relay(stream, BACKEND, "/x", PREFIX)
        text = stream_to(backend, store_of(), f"{PREFIX}/x")
        with pytest.raises(ConnectionResetError):
            await relay_text(text, BACKEND, "/x")

    http: Any = stream.http
    assert (http.sent, http.completed) == (b"part", False)


@pytest.mark.parametrize(
    ("response", "code", "reason", "text"),
    [
        (reply("404 Not Found", b" no such file\n"), 404, "NotFound", "no such file"),
        (reply("400 Bad Request"), 400, "BadRequest", "Bad Request"),
        (reply("418 Teapot", b"x"), 418, "", "x"),
        (reply("500 Internal", b"broken"), 500, "InternalError", "Internal error occurred: broken"),
        (
            reply("302 Found", b"x", Location="/y"),
            500,
            "InternalError",
            "Internal error occurred: the node agent responded with the redirect 302, which is not followed",
        ),
    ],
)
async def test_error_of_an_agent_is_the_response(response: bytes, code: int, reason: str, text: str) -> None:
    async with serving(response) as backend:
        stream = stream_to(backend, store_of(), "/x")
        with pytest.raises(ApiError) as error:
            await relay_text(stream, BACKEND, "/x")

    assert (error.value.code, error.value.reason, error.value.message) == (code, reason, text)
    assert not stream.started


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"error": UNHEARD}, "dial tcp 192.0.2.7:8080: connect: connection refused"),
        ({"closes": True}, "Server disconnected"),
    ],
)
async def test_agent_that_does_not_respond_with_text_is_an_error(options: Any, why: str) -> None:
    async with serving(**options) as backend:
        with pytest.raises(ApiError) as error:
            await relay_text(stream_to(backend, store_of(), "/x"), BACKEND, "/x?y=1")

    assert (error.value.code, error.value.message) == (500, f'Get "http://192.0.2.7:8080/x?y=1": {why}')


async def test_partial_text_is_a_success() -> None:
    async with serving(reply("206 Partial Content", b"x")) as backend:
        stream = stream_to(backend, store_of(), "/x")
        await relay_text(stream, BACKEND, "/x")

    http: Any = stream.http
    assert (http.status, http.sent) == (200, b"x")


@pytest.mark.parametrize(
    ("offered", "chosen", "frames"),
    [
        ("", None, [b"\x82\x00", b"\x82\x05hello"]),
        ("binary.k8s.io", "binary.k8s.io", [b"\x82\x00", b"\x82\x05hello"]),
        ("x, base64.binary.k8s.io", "base64.binary.k8s.io", [b"\x81\x00", b"\x81\x08aGVsbG8="]),
    ],
)
async def test_text_is_sent_as_messages_of_a_websocket(offered: str, chosen: str | None, frames: list[bytes]) -> None:
    headers = {**HANDSHAKE, **({"Sec-WebSocket-Protocol": offered} if offered else {})}
    async with serving(reply("200 OK", b"hello")) as backend:
        stream = stream_to(backend, store_of(), "/x", headers=headers)
        http: Any = stream.http
        http.line.on_close = lambda: http.protocol.data_received(masked(8, b"\x03\xe8"))
        await relay_text(stream, BACKEND, "/x")

    assert (stream.started, stream.code) == (True, 101)
    assert http.sent_headers.get("Sec-WebSocket-Protocol") == chosen
    assert bytes(http.line.written) == b"".join(frames) + b"\x88\x02\x03\xe8"


async def test_long_text_is_split_into_messages() -> None:
    async with serving(reply("200 OK", b"x" * 5000)) as backend:
        stream = stream_to(backend, store_of(), "/x", headers=HANDSHAKE)
        http: Any = stream.http
        http.line.on_close = lambda: http.protocol.data_received(masked(8, b"\x03\xe8"))
        await relay_text(stream, BACKEND, "/x")

    sizes, rest = [], bytes(http.line.written)
    while rest:
        size, start = (int.from_bytes(rest[2:4], "big"), 4) if rest[1] == 126 else (rest[1], 2)
        sizes.append(size)
        rest = rest[start + size :]
    assert sum(sizes[:-1]) == 5000
    assert max(sizes) == 2048


@pytest.mark.parametrize(
    ("change", "code", "text"),
    [
        ({"Sec-WebSocket-Protocol": "v4.channel.k8s.io"}, 403, b""),
        ({"Sec-WebSocket-Version": "12"}, 400, b"missing or bad WebSocket Version"),
        ({"Sec-WebSocket-Key": "x"}, 400, b"mismatch challenge/response"),
    ],
)
async def test_invalid_handshake_is_rejected(change: dict[str, str], code: int, text: bytes) -> None:
    async with serving(reply("200 OK", b"hello")) as backend:
        stream = stream_to(backend, store_of(), "/x", headers={**HANDSHAKE, **change})
        rendered = await relay_text(stream, BACKEND, "/x")

    http: Any = stream.http
    assert rendered is not None
    assert (rendered.code, b"".join(rendered.pieces), http.closes) == (code, text, True)
    assert rendered.headers == ({"Sec-WebSocket-Version": "13"} if b"Version" in text else {})
    assert not stream.started
