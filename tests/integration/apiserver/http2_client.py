"""HTTP/2 client with access to every frame."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, ResponseReceived, StreamEnded, StreamReset
from h2.settings import SettingCodes
from hyperframe.frame import Frame, GoAwayFrame

WAIT_SECONDS = 30.0
_HEAD_BYTES = 9


@dataclass
class Response:
    """Frames received on one stream."""

    code: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    ended: bool = False
    reset: int | None = None

    @property
    def done(self) -> bool:
        return self.ended or self.reset is not None

    def json(self) -> Any:
        return json.loads(self.body)


class Http2Client:
    """HTTP/2 connection.

    :param window: initial window size of a stream.
    :param reads: acknowledge received data immediately; otherwise see :meth:`read`.
    """

    def __init__(
        self,
        ready: Mapping[str, str],
        *,
        pair: tuple[Path, Path] | None = None,
        token: bool = True,
        window: int = 65535,
        reads: bool = True,
        name: str | None = None,
    ) -> None:
        self.responses: dict[int, Response] = {}
        self.goaway: GoAwayFrame | None = None
        self.closed = False
        self._ready, self._reads, self._received = ready, reads, b""
        self._token = ready["token"] if token else ""
        context = ssl.create_default_context(cafile=ready["caFile"])
        context.check_hostname = name is None
        context.set_alpn_protocols(["h2"])
        if pair is not None:
            context.load_cert_chain(*pair)
        parts = urlsplit(ready["url"])
        plain = socket.create_connection((parts.hostname, parts.port or 0), timeout=WAIT_SECONDS)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = context.wrap_socket(plain, server_hostname=name or parts.hostname)
        self.protocol = self.socket.selected_alpn_protocol()
        self.h2 = H2Connection(H2Configuration(header_encoding="utf-8"))
        self.h2.local_settings[SettingCodes.INITIAL_WINDOW_SIZE] = window
        self.h2.local_settings.acknowledge()
        self.h2.initiate_connection()
        self.h2.increment_flow_control_window(1 << 24)
        self.send()

    def __enter__(self) -> Http2Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self) -> None:
        if data := self.h2.data_to_send():
            self.socket.sendall(data)

    def begin(self, method: str, path: str, body: Any = None, **headers: str) -> int:
        """Send a request and return its stream."""
        number = int(self.h2.get_next_available_stream_id())
        data = b"" if body is None else json.dumps(body).encode()
        head = [(":method", method), (":scheme", "https"), (":authority", "api"), (":path", path)]
        head += [("authorization", f"Bearer {self._token}")] if self._token else []
        head += [("content-type", "application/json")] if data else []
        head += list(headers.items())
        response = self.responses[number] = Response()
        self.h2.send_headers(number, head, end_stream=not data)
        for start in range(0, len(data), 16384):
            self.wait(lambda: response.done or self.h2.local_flow_control_window(number) >= 16384)
            if response.done:  # the server does not accept more data
                break
            self.h2.send_data(number, data[start : start + 16384], end_stream=start + 16384 >= len(data))
            self.send()
        self.send()
        return number

    def request(self, method: str, path: str, body: Any = None, **headers: str) -> Response:
        """Return the complete response."""
        number = self.begin(method, path, body, **headers)
        return self.finish(number)

    def finish(self, number: int) -> Response:
        response = self.responses[number]
        self.wait(lambda: response.done)
        return response

    def read(self, number: int, size: int) -> None:
        """Increase the windows by *size* bytes."""
        self.h2.increment_flow_control_window(size, number)
        self.send()

    def cancel(self, number: int) -> None:
        self.h2.reset_stream(number, 8)
        self.send()

    def wait(self, until: Callable[[], bool]) -> None:
        """Process received frames until *until* is true; fails on a timeout or a closed connection."""
        while not until():
            assert not self.closed, "the connection is closed"
            try:
                data = self.socket.recv(1 << 16)
            except (ConnectionError, ssl.SSLEOFError):
                data = b""
            self.closed = not data
            self._received += data
            self._take_frames()
            if not self.closed:
                self.send()

    def _take_frames(self) -> None:
        while len(self._received) >= _HEAD_BYTES:
            frame, length = Frame.parse_frame_header(memoryview(self._received[:_HEAD_BYTES]))
            if len(self._received) < _HEAD_BYTES + length:
                return
            whole, self._received = self._received[: _HEAD_BYTES + length], self._received[_HEAD_BYTES + length :]
            if isinstance(frame, GoAwayFrame):  # the library rejects frames after it
                frame.parse_body(memoryview(whole[_HEAD_BYTES:]))
                self.goaway = frame
                continue
            for event in self.h2.receive_data(whole):
                self._act(event)

    def _act(self, event: Any) -> None:
        response = self.responses.get(getattr(event, "stream_id", 0) or 0)
        if response is None:
            return
        match event:
            case ResponseReceived():
                response.headers = dict(event.headers)
                response.code = int(response.headers[":status"])
            case DataReceived():
                response.body += event.data
                if self._reads:
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case StreamEnded():
                response.ended = True
            case StreamReset():
                response.reset = int(event.error_code)
