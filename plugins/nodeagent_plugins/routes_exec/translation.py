"""Commands and attachments over WebSockets, translated to SPDY streams of the runtime.

Runtimes do not implement the WebSocket subprotocol in which a client can close its input. The client's channels become
one SPDY stream each; the runtime's status is sent on the error channel.
"""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
from aiohttp import WSMsgType, web

from nodeagent.base.aio import Clock
from nodeagent.base.spdy import Kind, SpdyError
from nodeagent.contracts.server import SENT_BYTES
from nodeagent_plugins.routes_exec.spdy_client import RuntimeDisconnected, SpdyStreams, UpgradeFailed, open_spdy
from nodeagent_plugins.routes_exec.streams import Streams
from nodeagent_plugins.routes_exec.websockets import STREAM_CLOSE, IdleLimit, accept, run_until_first

STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
CLOSE = 255
"""A message on this channel contains the number of a channel that the client has closed."""
PROTOCOL = "v4.channel.k8s.io"
"""Subprotocol of the SPDY streams, whose error stream carries a JSON status."""
MAX_STATUS_BYTES = 64 * 1024
_DISCONNECTED = "the runtime closed the connection before the command had exited"
_NAMES = {STDIN: "stdin", STDOUT: "stdout", STDERR: "stderr", ERROR: "error", RESIZE: "resize"}


async def translate(
    request: web.Request, url: str, streams: Streams, clock: Clock, idle_seconds: float
) -> web.StreamResponse:
    """Accept the WebSocket and copy its channels to and from the streams at *url* until one side closes."""
    socket = await accept(request, (STREAM_CLOSE,))
    session = _Session(socket, streams, IdleLimit(clock, idle_seconds))
    try:
        with contextlib.suppress(ConnectionError):  # The client has disconnected.
            await session.run(url)
    finally:
        SENT_BYTES.get().count = session.sent_bytes
    await socket.close()
    return socket


class _Session:
    """One client; the runtime closes its streams when the command has exited."""

    def __init__(self, socket: web.WebSocketResponse, streams: Streams, idle: IdleLimit) -> None:
        self._socket, self._streams, self._idle = socket, streams, idle
        self._status = b""
        self._completed = False
        self.sent_bytes = 0

    async def run(self, url: str) -> None:
        # The client waits for a message before it treats the connection as established.
        first = STDOUT if self._streams.stdout else STDERR if self._streams.stderr else ERROR
        await self._send(first, b"")
        try:
            connection = await open_spdy(url, (PROTOCOL,))
        except UpgradeFailed as error:
            await self._send(ERROR, _internal_error(str(error)))
            return
        try:
            if connection.protocol != PROTOCOL:
                await self._send(ERROR, _internal_error(f"the runtime does not support {PROTOCOL}"))
                return
            spdy = SpdyStreams(connection)
            numbers = {channel: await spdy.open({"streamtype": _NAMES[channel]}) for channel in self._channels()}
            await run_until_first(self._to_runtime(spdy, numbers), self._to_client(spdy, numbers), self._idle.wait())
        except RuntimeDisconnected:
            self._completed, self._status = True, _internal_error(_DISCONNECTED)
        except SpdyError as error:
            self._completed, self._status = True, _internal_error(f"the runtime sent invalid SPDY data: {error}")
        finally:
            connection.close()
        if self._completed:
            await self._send(ERROR, self._status)

    def _channels(self) -> list[int]:
        """Return the channels in the order in which the runtime's clients open them."""
        requested = ((STDIN, self._streams.stdin), (STDOUT, self._streams.stdout), (STDERR, self._streams.stderr))
        channels = [ERROR, *(channel for channel, is_requested in requested if is_requested)]
        return [*channels, RESIZE] if self._streams.tty else channels

    async def _send(self, channel: int, data: bytes) -> None:
        await self._socket.send_bytes(bytes((channel,)) + data)
        self.sent_bytes += len(data)
        self._idle.touch()

    async def _to_runtime(self, spdy: SpdyStreams, numbers: dict[int, int]) -> None:
        """Copy input and terminal sizes until the client disconnects."""
        writable = {channel for channel in (STDIN, RESIZE) if channel in numbers}
        async for message in self._socket:
            if message.type is not WSMsgType.BINARY or not message.data:
                continue
            self._idle.touch()
            channel, data, fin = message.data[0], message.data[1:], False
            if channel == CLOSE and len(data) == 1:
                channel, data, fin = data[0], b"", True
            if channel not in writable:
                continue
            if fin:
                writable.discard(channel)
            try:
                await spdy.send(numbers[channel], data, fin=fin)
            except RuntimeDisconnected:
                writable.clear()  # The output that the runtime has sent is still copied.

    async def _to_client(self, spdy: SpdyStreams, numbers: dict[int, int]) -> None:
        """Copy output until the runtime has closed the output and error streams."""
        channels = {number: channel for channel, number in numbers.items()}
        open_channels = set(numbers) - {STDIN, RESIZE}
        status = b""
        async for frame in spdy.frames():
            channel = channels.get(frame.stream)
            if channel not in open_channels:
                continue
            if channel == ERROR:
                status = (status + frame.data)[:MAX_STATUS_BYTES]
            elif frame.data:
                await self._send(channel, frame.data)
            if frame.fin or frame.kind == Kind.RST_STREAM:
                open_channels.discard(channel)
                if not open_channels:
                    break
        self._completed = True
        if ERROR in open_channels and not status:
            self._status = _internal_error(_DISCONNECTED)
        else:
            self._status = _client_status(status)


def _client_status(text: bytes) -> bytes:
    """Return the status for the client, with the texts of upstream; an empty status is a success."""
    if not text:
        return _encode({"status": "Success"})
    try:
        status = msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError:
        return _internal_error(f"error stream protocol error: {text.decode(errors='replace')!r}")
    if status.get("status") == "Success":
        return _encode({"status": "Success"})
    message = str(status.get("message", ""))
    if status.get("reason") != "NonZeroExitCode":
        return _internal_error(message or "unknown error")
    status["message"] = f"command terminated with non-zero exit code: {message}"
    return _encode(status)


def _internal_error(text: str) -> bytes:
    return _encode(
        {
            "status": "Failure",
            "message": f"Internal error occurred: {text}",
            "reason": "InternalError",
            "details": {"causes": [{"message": text}]},
            "code": 500,
        }
    )


def _encode(status: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"metadata": {}, **status})
