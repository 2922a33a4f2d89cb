"""A transport of the API client without a network: requests are kept, answers are queued."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from nodeagent.apiclient.transport import Request, Response, Stream

JSON_HEADERS = {"content-type": "application/json"}


class FakeTransport:
    """Answers each request with the next of ``answers``: a response, or an error to raise; then with ``default``."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.answers: deque[Response | Exception] = deque()
        self.default = json_answer({})
        self.pieces: Sequence[bytes | Exception] = ()
        self.stream_head = Response(200, JSON_HEADERS)
        self.closed = False
        self.host = "api.test:6443"

    async def request(self, request: Request, deadline_seconds: float) -> Response:
        self.requests.append(request)
        answer = self.answers.popleft() if self.answers else self.default
        if isinstance(answer, Exception):
            raise answer
        return answer

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


def json_answer(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer with *content* as JSON."""
    return Response(status, {**JSON_HEADERS, **(headers or {})}, msgspec.json.encode(content))


def status_answer(code: int, reason: str = "", message: str = "", headers: Mapping[str, str] | None = None) -> Response:
    """Return a failure as the server tells it."""
    content = {"kind": "Status", "apiVersion": "v1", "code": code, "reason": reason, "message": message}
    return json_answer(content, code, headers)
