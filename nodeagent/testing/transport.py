"""Fake transport of the API server client: records requests and returns queued responses."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from nodeagent.apiclient.transport import Request, Response, Stream

JSON_HEADERS = {"content-type": "application/json"}


class FakeTransport:
    """Transport that returns, or raises, the next of ``responses`` for each request, then ``default``."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.responses: deque[Response | Exception] = deque()
        self.default = json_response({})
        self.pieces: Sequence[bytes | Exception] = ()
        self.stream_head = Response(200, JSON_HEADERS)
        self.closed = False
        self.host = "api.test:6443"

    async def request(self, request: Request, deadline_seconds: float) -> Response:
        self.requests.append(request)
        response = self.responses.popleft() if self.responses else self.default
        if isinstance(response, Exception):
            raise response
        return response

    @asynccontextmanager
    async def stream(self, request: Request, deadline_seconds: float, idle_seconds: float) -> AsyncIterator[Stream]:
        self.requests.append(request)
        yield Stream(self.stream_head, self._pieces())

    async def close(self) -> None:
        self.closed = True

    async def _pieces(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece


def json_response(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response with *content* as JSON."""
    return Response(status, {**JSON_HEADERS, **(headers or {})}, msgspec.json.encode(content))


def status_response(
    code: int, reason: str = "", message: str = "", headers: Mapping[str, str] | None = None
) -> Response:
    """Return an error response with a Status."""
    content = {"kind": "Status", "apiVersion": "v1", "code": code, "reason": reason, "message": message}
    return json_response(content, code, headers)
