"""Parser of the responses on one connection, with httptools: in C, since most of a request's time was parsing."""

from __future__ import annotations

from collections.abc import Mapping

import httptools

from nodeagent.apiclient.transport import ConnectionLost, Response

MAX_HEAD_BYTES = 64 * 1024
_SWITCHING_PROTOCOLS = 101


class ResponseParser:
    """Parses one response after another; informational responses are skipped."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._head_bytes = 0
        self._keep_alive, self._excess = True, False
        self.head: Response | None = None
        """Status and headers, once they are complete."""
        self.body = bytearray()
        """Part of the body that has arrived; the reader removes it."""
        self.complete = True
        """True if no response is expected any more."""

    @property
    def reusable(self) -> bool:
        """True if the last response is complete and another one can follow it."""
        return self.complete and self._keep_alive and not self._excess

    def expect(self) -> None:
        """Prepare for the next response."""
        self._headers, self._head_bytes = {}, 0
        self.head, self.complete = None, False
        self.body.clear()

    def feed(self, data: bytes) -> None:
        """Parse *data*, empty at the end of the connection.

        :raises ConnectionLost: the response is invalid or incomplete.
        """
        if not data:
            self._end()
            return
        if self.head is None:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self.complete:
                raise ConnectionLost(f"invalid response: {error or type(error).__name__}") from error
            self._excess = True
        if self.head is None and self._head_bytes > MAX_HEAD_BYTES:
            raise ConnectionLost(f"invalid response: the head is over {MAX_HEAD_BYTES} bytes")
        if self.head is not None and self.head.status == _SWITCHING_PROTOCOLS:
            raise ConnectionLost("invalid response: unexpected change of the protocol")

    # --- called by the parser -------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._excess = self._excess or self.complete

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if _is_informational(status):
            self._headers = {}
        elif not self.complete:
            self.head, self._keep_alive = Response(status, self._headers), self._parser.should_keep_alive()

    def on_body(self, data: bytes) -> None:
        if not self.complete:
            self.body += data

    def on_message_complete(self) -> None:
        self.complete = self.complete or self.head is not None

    def _end(self) -> None:
        if self.head is None:
            raise ConnectionLost("server disconnected")
        if not self.complete and _has_length(self.head.headers):
            raise ConnectionLost("invalid response: the connection was closed before the end of the body")
        self.complete, self._keep_alive = True, False


def _is_informational(status: int) -> bool:
    return 100 <= status < 200 and status != _SWITCHING_PROTOCOLS


def _has_length(headers: Mapping[str, str]) -> bool:
    """Return whether the end of the body is known from the response, not from the end of the connection."""
    return "content-length" in headers or "transfer-encoding" in headers
