"""Translation of the streams of a command from WebSocket messages to SPDY streams (``v5.channel.k8s.io``).

A client that uses this subprotocol can close its input, which endpoints support only over SPDY. The client's channels
become one SPDY stream each; the status that the endpoint sends is returned on the error channel.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, Protocol

import msgspec

from nodeagent.base.spdy import Kind, SpdyError
from nodeagent.base.spdy_streams import Disconnected, SpdyConnection, SpdyStreams, UpgradeFailed
from nodeagent.base.structs import Struct

STREAM_CLOSE = "v5.channel.k8s.io"
"""Subprotocol of commands in which a client can close its input."""
STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
CLOSE = 255
"""A message on this channel contains the number of a channel that the client has closed."""
PROTOCOL = "v4.channel.k8s.io"
"""Subprotocol of the SPDY streams, whose error stream carries a JSON status."""
MAX_STATUS_BYTES = 64 * 1024
_NAMES = {STDIN: "stdin", STDOUT: "stdout", STDERR: "stderr", ERROR: "error", RESIZE: "resize"}


class Streams(Struct, frozen=True):
    """Streams of an exec or attach request."""

    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool


class Outcome(Struct, frozen=True):
    """Status of a command for the client (JSON)."""

    status: bytes = b""
    failed: bool = False
    """``True`` if the translation or the endpoint failed, rather than the command."""


class Client(Protocol):
    """The WebSocket of the client."""

    async def send(self, message: bytes) -> None:
        """Send a binary message.

        :raises ConnectionError: the client has disconnected.
        """

    def messages(self) -> AsyncIterator[bytes]:
        """Yield the client's binary messages until it disconnects or closes."""


class TranslatedSession:
    """One client of one command; the endpoint closes its streams when the command has exited.

    :param peer: the endpoint in errors, such as ``the runtime``.
    """

    def __init__(self, client: Client, streams: Streams, peer: str) -> None:
        self._client, self._streams, self._peer = client, streams, peer
        self.outcome = Outcome()
        self._completed = False
        self.sent_bytes = 0

    async def run(self, connect: Callable[[], Awaitable[SpdyConnection]]) -> None:
        """Copy between the client and the connection of *connect*, which offers :data:`PROTOCOL`, until one closes.

        :raises ConnectionError: the client has disconnected.
        """
        # The client waits for a message before it treats the connection as established.
        first = STDOUT if self._streams.stdout else STDERR if self._streams.stderr else ERROR
        await self._send(first, b"")
        try:
            connection = await connect()
        except UpgradeFailed as error:
            await self._fail(str(error))
            return
        try:
            if connection.protocol != PROTOCOL:
                await self._fail(f"{self._peer} does not support {PROTOCOL}")
                return
            spdy = SpdyStreams(connection)
            numbers = {channel: await spdy.open({"streamtype": _NAMES[channel]}) for channel in self._channels()}
            await run_until_first(self._to_endpoint(spdy, numbers), self._to_client(spdy, numbers))
        except Disconnected:
            self._completed, self.outcome = True, self._disconnected()
        except SpdyError as error:
            self._completed, self.outcome = True, _internal_error(f"{self._peer} sent invalid SPDY data: {error}")
        finally:
            connection.close()
        if self._completed:
            await self._send(ERROR, self.outcome.status)

    async def _fail(self, text: str) -> None:
        self.outcome = _internal_error(text)
        await self._send(ERROR, self.outcome.status)

    def _channels(self) -> list[int]:
        """Return the channels in the order in which the endpoint's clients open them."""
        requested = ((STDIN, self._streams.stdin), (STDOUT, self._streams.stdout), (STDERR, self._streams.stderr))
        channels = [ERROR, *(channel for channel, is_requested in requested if is_requested)]
        return [*channels, RESIZE] if self._streams.tty else channels

    async def _send(self, channel: int, data: bytes) -> None:
        await self._client.send(bytes((channel,)) + data)
        self.sent_bytes += len(data)

    async def _to_endpoint(self, spdy: SpdyStreams, numbers: dict[int, int]) -> None:
        """Copy input and terminal sizes until the client disconnects."""
        writable = {channel for channel in (STDIN, RESIZE) if channel in numbers}
        async for message in self._client.messages():
            if not message:
                continue
            channel, data, fin = message[0], message[1:], False
            if channel == CLOSE and len(data) == 1:
                channel, data, fin = data[0], b"", True
            if channel not in writable:
                continue
            if fin:
                writable.discard(channel)
            try:
                await spdy.send(numbers[channel], data, fin=fin)
            except Disconnected:
                writable.clear()  # The output that the endpoint has sent is still copied.

    async def _to_client(self, spdy: SpdyStreams, numbers: dict[int, int]) -> None:
        """Copy output until the endpoint has closed the output and error streams."""
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
            self.outcome = self._disconnected()
        else:
            self.outcome = _client_outcome(status)

    def _disconnected(self) -> Outcome:
        return _internal_error(f"{self._peer} closed the connection before the command had exited")


async def run_until_first(*works: Coroutine[Any, Any, None]) -> None:
    """Run *works* concurrently until one completes, then cancel the others; its error is raised."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


def _client_outcome(text: bytes) -> Outcome:
    """Return the outcome for the client, with the texts of upstream; an empty status is a success."""
    if not text:
        return Outcome(_encode({"status": "Success"}))
    try:
        status = msgspec.json.decode(text, type=dict[str, Any])
    except (ValueError, RecursionError):
        return _internal_error(f"error stream protocol error: {text.decode(errors='replace')!r}")
    if status.get("status") == "Success":
        return Outcome(_encode({"status": "Success"}))
    message = str(status.get("message", ""))
    if status.get("reason") != "NonZeroExitCode":
        return _internal_error(message or "unknown error")
    status["message"] = f"command terminated with non-zero exit code: {message}"
    return Outcome(_encode(status))


def _internal_error(text: str) -> Outcome:
    status = _encode(
        {
            "status": "Failure",
            "message": f"Internal error occurred: {text}",
            "reason": "InternalError",
            "details": {"causes": [{"message": text}]},
            "code": 500,
        }
    )
    return Outcome(status, failed=True)


def _encode(status: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"metadata": {}, **status})
