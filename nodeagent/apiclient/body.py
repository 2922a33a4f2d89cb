"""Body of a response, decompressed."""

from __future__ import annotations

import asyncio
import zlib
from dataclasses import replace

from nodeagent.apiclient.transport import MAX_BODY_BYTES, ConnectionLost, Response, Source

_GZIP = 16 + zlib.MAX_WBITS


class Body:
    """Iterator over the pieces of a body as they arrive.

    Iterating raises ``TimeoutError`` after ``idle_seconds`` without a piece, and :class:`ConnectionLost` if the
    connection fails or the response is invalid.

    :param encoding: content encoding of the response.
    """

    def __init__(self, source: Source, encoding: str) -> None:
        self._source = source
        self._encoding = encoding
        self._decompress = zlib.decompressobj(_GZIP).decompress if encoding == "gzip" else None
        self.idle_seconds: float | None = None

    def __aiter__(self) -> Body:
        return self

    async def __anext__(self) -> bytes:
        async with asyncio.timeout(self.idle_seconds):
            while piece := await self._source.read():
                if decoded := self._decoded(piece):
                    return decoded
        raise StopAsyncIteration

    async def complete(self, head: Response) -> Response:
        """Return the response with its complete body.

        :raises ConnectionLost: the body is too large; otherwise as when iterating.
        """
        body = bytearray()
        async for piece in self:
            body += piece
            if len(body) > MAX_BODY_BYTES:
                raise ConnectionLost(f"the response is over {MAX_BODY_BYTES} bytes")
        return replace(head, body=bytes(body))

    def _decoded(self, piece: bytes) -> bytes:
        if self._decompress is None:
            if self._encoding not in ("", "identity"):
                raise ConnectionLost(f"invalid response: content encoding {self._encoding!r} was not requested")
            return piece
        try:
            return self._decompress(piece)
        except zlib.error as error:
            raise ConnectionLost(f"invalid response: {error}") from error
