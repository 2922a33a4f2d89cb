"""Request for unit tests, without a connection; it records its response."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence

from multidict import CIMultiDict, CIMultiDictProxy

from apiserver_stub.transport.http import BodyTooLong, Headers, HttpRequest, ResponseStream


class FakeHttpRequest(HttpRequest):
    """A request with the body *content*."""

    def __init__(
        self, method: str = "GET", target: str = "/", headers: Mapping[str, str] | None = None, content: bytes = b""
    ) -> None:
        fields = CIMultiDictProxy(CIMultiDict(headers or {}))
        super().__init__(method, target, (1, 1), fields, remote="192.0.2.1", tls=None)
        self.content = content
        self.status = 0
        self.reason = ""
        self.sent_headers: CIMultiDict[str] = CIMultiDict()
        self.sent = b""
        self.completed = self.closes = False

    @property
    def has_body(self) -> bool:
        return bool(self.content)

    async def read_body(self, limit: int) -> bytes:
        if len(self.content) > limit:
            raise BodyTooLong
        return self.content

    async def body(self) -> AsyncIterator[bytes]:
        yield self.content

    async def respond(self, status: int, headers: Headers, pieces: Sequence[bytes]) -> None:
        response = self.start(status, headers)
        for piece in pieces:
            await response.write(piece)
        response.end()

    def start(self, status: int, headers: Headers, *, reason: str = "", may_stall: bool = False) -> ResponseStream:
        assert not self.status
        self.status, self.reason, self.sent_headers = status, reason, CIMultiDict(headers)
        return _Recorder(self)

    def close_after_response(self) -> None:
        self.closes = True

    def upgrade(self, protocol: asyncio.BaseProtocol, headers: Headers | None = None) -> None:
        self.status, self.sent_headers, self.completed = 101, CIMultiDict(headers or ()), True


class _Recorder(ResponseStream):
    def __init__(self, http: FakeHttpRequest) -> None:
        self._http = http

    async def write(self, data: bytes) -> None:
        self._http.sent += data

    def end(self) -> None:
        self._http.completed = True
