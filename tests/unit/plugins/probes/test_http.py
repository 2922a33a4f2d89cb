"""Tests for HTTP probes."""

from __future__ import annotations

import asyncio
import errno
import ssl
from typing import Any

import pytest

from nodeagent_plugins.probes.http import probe_http, probe_url, request_headers
from nodeagent_plugins.probes.outcome import MAX_OUTPUT_BYTES, Outcome, OutcomeKind, ProbeError

URL = "http://10.0.0.1:80/healthz"


class Server:
    """Responds to consecutive connections with the given data."""

    def __init__(self, *responses: bytes | BaseException | None) -> None:
        self.responses = list(responses)
        self.seen: list[tuple[str, int, bool]] = []
        self.sent = b""
        self.ended: list[str] = []

    async def connect(self, host: str, port: int, secure: ssl.SSLContext | None) -> Any:
        self.seen.append((host, port, secure is not None))
        response = self.responses.pop(0)
        if isinstance(response, BaseException):
            raise response
        reader = asyncio.StreamReader()
        if response is not None:
            reader.feed_data(response)
            reader.feed_eof()
        return _Connection(self, reader)


class _Connection:
    def __init__(self, server: Server, reader: asyncio.StreamReader) -> None:
        self.server, self.reader, self.writer = server, reader, self

    def write(self, data: bytes) -> None:
        self.server.sent += data

    def close(self) -> None:
        self.server.ended.append("close")

    def abort(self) -> None:
        self.server.ended.append("abort")


async def probe(*responses: bytes | BaseException | None, url: str = URL, **headers: str) -> tuple[Outcome, Server]:
    server = Server(*responses)
    return await probe_http(url, list(headers.items()), 0.05, server.connect), server


def response(status: int, body: bytes = b"", *headers: str) -> bytes:
    lines = "".join(f"{line}\r\n" for line in (f"HTTP/1.1 {status} X", *headers))
    return lines.encode() + b"\r\n" + body


@pytest.mark.parametrize(
    ("status", "kind"),
    [(200, OutcomeKind.SUCCESS), (204, OutcomeKind.SUCCESS), (399, OutcomeKind.SUCCESS), (400, OutcomeKind.FAILURE),
     (500, OutcomeKind.FAILURE), (304, OutcomeKind.SUCCESS), (101, OutcomeKind.FAILURE)],
)  # fmt: skip
async def test_status_200_to_399_is_success(status: int, kind: OutcomeKind) -> None:
    outcome, server = await probe(response(status))

    assert outcome.kind is kind
    assert server.ended == ["close"]
    if kind is OutcomeKind.FAILURE:
        assert outcome.output == f"HTTP probe failed with statuscode: {status}"


async def test_request_equals_that_of_upstream() -> None:
    _, server = await probe(response(200), url="http://[fd00::1]:8080/a?b=c", X="1")

    assert server.seen == [("fd00::1", 8080, False)]
    assert server.sent.decode().split("\r\n") == [
        "GET /a?b=c HTTP/1.1",
        "Host: [fd00::1]:8080",
        "X: 1",
        "User-Agent: kube-probe/1.29",
        "Accept: */*",
        "Connection: close",
        "",
        "",
    ]


def test_custom_headers_replace_the_defaults() -> None:
    given = [("host", "web.test"), ("Accept", ""), ("user-agent", "mine"), ("X-Flag", "")]

    assert request_headers(given) == [("host", "web.test"), ("user-agent", "mine"), ("X-Flag", "")]
    assert request_headers([], "kube-probe/1.36") == [("User-Agent", "kube-probe/1.36"), ("Accept", "*/*")]


async def test_host_header_sets_the_host() -> None:
    _, server = await probe(response(200), Host="web.test")

    assert server.sent.count(b"Host:") == 1
    assert b"Host: web.test\r\n" in server.sent


@pytest.mark.parametrize("header", [("X", "a\r\nEvil: 1"), ("X\n", "a"), ("X Y", "a"), ("X:", "a"), ("", "a")])
def test_header_with_line_break_is_rejected(header: tuple[str, str]) -> None:
    with pytest.raises(ProbeError, match="invalid HTTP header"):
        request_headers([header])


async def test_header_name_that_is_not_a_token_fails_the_probe() -> None:
    outcome, server = await probe(response(200), **{"X(1)": "a"})

    assert outcome.kind is OutcomeKind.FAILURE
    assert "invalid request" in outcome.output
    assert not server.sent


async def test_https_certificate_is_not_verified() -> None:
    _, server = await probe(response(200), url="https://10.0.0.1:8443/")

    assert server.seen == [("10.0.0.1", 8443, True)]


async def test_redirect_on_the_same_host_is_followed() -> None:
    outcome, server = await probe(
        response(302, b"", "Location: /next"),
        response(307, b"", "Location: https://10.0.0.1:444/last"),
        response(200, b"here"),
    )

    assert outcome == Outcome(OutcomeKind.SUCCESS, "here")
    assert server.seen == [("10.0.0.1", 80, False), ("10.0.0.1", 80, False), ("10.0.0.1", 444, True)]


async def test_redirect_to_another_host_is_a_warning() -> None:
    outcome, server = await probe(response(301, b"moved", "Location: http://elsewhere.test/", "Content-Length: 5"))

    assert outcome == Outcome(OutcomeKind.WARNING, "Probe terminated redirects, Response body: moved")
    assert len(server.seen) == 1


async def test_redirect_loop_is_a_failure() -> None:
    outcome, _ = await probe(*[response(302, b"", "Location: /x")] * 10)

    assert outcome == Outcome(OutcomeKind.FAILURE, f'Get "{URL}": stopped after 10 redirects')


@pytest.mark.parametrize(
    ("raw", "body"),
    [
        (response(200, b"hello world", "Content-Length: 5"), "hello"),
        (response(200, b"until the end"), "until the end"),
        (response(200, b"5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n", "Transfer-Encoding: chunked"), "hello world"),
        (response(103, b"", "Link: x") + response(200, b"final"), "final"),
        (b"HTTP/1.0 200\n\nold", "old"),
        (response(200, b"x" * 50_000), "x" * MAX_OUTPUT_BYTES),
    ],
)
async def test_bodies_of_all_transfer_encodings_are_read(raw: bytes, body: str) -> None:
    outcome, _ = await probe(raw)

    assert outcome == Outcome(OutcomeKind.SUCCESS, body)


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"SSH-2.0-x\r\n", 'malformed HTTP response "SSH-2.0-x"'),
        (b"", "EOF"),
        (b"HTTP/1.1 200 OK\r\nA: b\r\n", "EOF"),
        (response(200, b"", *["A: b"] * 250), "more than 200 response headers"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "x"), "dial tcp 10.0.0.1:80: connect: connection refused"),
        (ConnectionResetError(errno.ECONNRESET, "x"), "read tcp 10.0.0.1:80: connection reset by peer"),
        (ssl.SSLError(1, "bad handshake"), "bad handshake"),
        (None, "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"),
    ],
)
async def test_failure_has_the_reason(raw: bytes | BaseException | None, problem: str) -> None:
    outcome, server = await probe(raw)

    assert outcome.kind is OutcomeKind.FAILURE
    assert outcome.output.startswith(f'Get "{URL}": ')
    assert problem in outcome.output
    assert "close" not in server.ended


@pytest.mark.parametrize(
    ("given", "url"),
    [
        (("HTTP", "10.0.0.1", 80, "/x?y=z"), "http://10.0.0.1:80/x?y=z"),
        (("", "10.0.0.1", 80, ""), "http://10.0.0.1:80/"),
        (("HTTPS", "::1", 443, "a b"), "https://[::1]:443/a%20b"),
        (("HTTP", "h", 1, "/a?b#here"), "http://h:1/a?b"),
        (("HTTP", "h", 1, "/a\r\nX: y"), "http://h:1/a%0D%0AX:%20y"),
    ],
)
def test_probe_urls(given: tuple[str, str, int, str], url: str) -> None:
    assert probe_url(*given) == url


@pytest.mark.parametrize(
    ("status", "headers", "kind"),
    [(200, ["Location: http://10.0.0.1/other"], OutcomeKind.SUCCESS), (302, [], OutcomeKind.WARNING)],
)
async def test_only_a_redirect_with_a_location_is_followed(status: int, headers: list[str], kind: OutcomeKind) -> None:
    outcome, server = await probe(response(status, b"", *headers))

    assert outcome.kind is kind
    assert len(server.seen) == 1
