"""Simulated HTTP client, which sends the bytes that a client writes to its TLS connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import httptools
import msgspec

from apiserver_stub.simulation.network import Network

JSON = "application/json"
MERGE = "application/merge-patch+json"
TIMEOUT_SECONDS = 75.0


class Lost(Exception):
    """The connection was closed, or the response did not arrive: the result of the request is unknown."""


class Response:
    """A complete response."""

    def __init__(self, code: int, headers: Mapping[str, str], body: bytes) -> None:
        self.code, self.headers, self._body = code, headers, body

    @property
    def content(self) -> Any:
        """The decoded body."""
        try:
            return msgspec.json.decode(self._body)
        except msgspec.DecodeError:
            return {}

    @property
    def version(self) -> int:
        """The resource version of the returned object or list; 0 without one."""
        content = self.content
        return int(content.get("metadata", {}).get("resourceVersion") or 0) if isinstance(content, dict) else 0


class Exchange:
    """One request on its own connection, and its response as it arrives.

    :param body: receives parts of the body; they are collected if it is ``None``.
    """

    def __init__(self, network: Network, request: bytes, body: Callable[[bytes], None] | None = None) -> None:
        self.done: asyncio.Future[None] = network.loop.create_future()
        self.headers: dict[str, str] = {}
        self.pieces: list[bytes] = []
        self.code = 0
        self._parser = httptools.HttpResponseParser(self)
        self._body = body
        self.connection = network.connect(self._receive, self._lost)
        self.connection.send(request)

    def _receive(self, data: bytes) -> None:
        if not self.done.done():
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserError as error:
                self.done.set_exception(error)

    def _lost(self) -> None:
        if not self.done.done():
            self.done.set_exception(Lost("connection closed"))
            self.done.exception()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header."""
        self.headers[name.decode().lower()] = value.decode()

    def on_headers_complete(self) -> None:
        """Accept the status code."""
        self.code = self._parser.get_status_code()

    def on_body(self, data: bytes) -> None:
        """Accept a part of the body."""
        if self._body is None or self.code != 200:
            self.pieces.append(data)
        else:
            self._body(data)

    def on_message_complete(self) -> None:
        """Complete the response."""
        if not self.done.done():
            self.done.set_result(None)

    def close(self) -> None:
        """Close the connection."""
        self.connection.abandon()
        if not self.done.done():
            self.done.cancel()


class Client:
    """A user of the API.

    :param token: returns the bearer token.
    """

    def __init__(self, network: Network, token: str) -> None:
        self.network, self._token = network, token

    async def request(self, method: str, path: str, body: Any = None, content_type: str = JSON) -> Response:
        """Send a request and return the response.

        :raises Lost: the result is unknown.
        """
        exchange = Exchange(self.network, self._encode(method, path, body, content_type))
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await exchange.done
        except TimeoutError:
            raise Lost("timeout") from None
        finally:
            exchange.close()
        return Response(exchange.code, exchange.headers, b"".join(exchange.pieces))

    def stream(self, path: str, body: Callable[[bytes], None]) -> Exchange:
        """Start a request whose response is passed to *body* as it arrives."""
        return Exchange(self.network, self._encode("GET", path, None, JSON), body)

    def _encode(self, method: str, path: str, body: Any, content_type: str) -> bytes:
        content = b"" if body is None else msgspec.json.encode(body)
        head = f"{method} {path} HTTP/1.1\r\nHost: simulated\r\nAuthorization: Bearer {self._token}\r\n"
        if body is not None:
            head += f"Content-Type: {content_type}\r\nContent-Length: {len(content)}\r\n"
        return head.encode() + b"\r\n" + content
