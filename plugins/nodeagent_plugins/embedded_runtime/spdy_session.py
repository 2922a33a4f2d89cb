"""Streaming session over SPDY/3.1: a stream per channel, or two per forwarded port."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from nodeagent.base.spdy import Frame, Kind, Reader, SpdyError, Writer
from nodeagent_plugins.embedded_runtime.channels import CLOSE, ERROR, RESIZE, STDERR, STDIN, STDOUT, Feed, Session
from nodeagent_plugins.embedded_runtime.errors import CallError

_log = logging.getLogger(__name__)
CHANNELS = {"stdin": STDIN, "stdout": STDOUT, "stderr": STDERR, "error": ERROR, "resize": RESIZE}
OPEN_SECONDS = 30.0
READ_BYTES = 32 * 1024
MAX_WAITING = 64
"""Maximum number of queued frames before reading from the client pauses."""
MAX_PORTS = 200
"""Maximum number of ports per client."""


class SpdySession(Session):
    """The streams of one connection.

    Also the parser that aiohttp feeds with received data (``feed_data`` and ``feed_eof``).

    :param write: sends bytes to the client; raises ``ConnectionError`` if it has disconnected.
    :param hold: pauses reading from the client with true, resumes it with false.
    """

    def __init__(self, write: Callable[[bytes], Awaitable[None]], hold: Callable[[bool], None]) -> None:
        self._write, self._hold = write, hold
        self._reader, self._writer = Reader(), Writer()
        self._frames: asyncio.Queue[Frame | None] = asyncio.Queue()
        self._held = False
        self._streams: dict[int, int] = {}
        self._early: list[Frame] = []
        self._last = 0

    # --- received data ----------------------------------------------------------------------------------------

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        try:
            for frame in self._reader.feed(data):
                self._frames.put_nowait(frame)
        except SpdyError as error:
            _log.warning("Closed stream, invalid SPDY data from client", extra={"err": str(error)})
            self._frames.put_nowait(None)
            return True, b""
        if self._frames.qsize() > MAX_WAITING and not self._held:
            self._held = True
            self._hold(True)
        return False, b""

    def feed_eof(self) -> None:
        self._frames.put_nowait(None)

    async def _next(self) -> Frame | None:
        """Return the next frame of an open stream; ``None`` once the client has disconnected."""
        while True:
            frame = await self._frames.get()
            if self._held and self._frames.qsize() < MAX_WAITING // 2:
                self._held = False
                self._hold(False)
            if frame is None or frame.kind == Kind.GOAWAY:
                self._frames.put_nowait(None)
                return None
            if frame.kind == Kind.PING:
                await self._write(self._writer.ping(frame.data))
            elif frame.kind in (Kind.SYN_STREAM, Kind.DATA, Kind.RST_STREAM):
                return frame

    async def _accept(self, frame: Frame) -> None:
        self._last = frame.stream
        await self._write(self._writer.syn_reply(frame.stream))

    # --- commands ---------------------------------------------------------------------------------------------

    async def open(self, request: Any) -> None:
        """Wait until the client has opened the streams that *request* requires.

        :raises CallError: the streams were not opened in time.
        """
        requested = {ERROR, RESIZE} if request.tty else {ERROR}
        given = ((STDIN, request.stdin), (STDOUT, request.stdout), (STDERR, request.stderr and not request.tty))
        requested |= {channel for channel, is_requested in given if is_requested}
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                while requested - set(self._streams.values()):
                    frame = await self._next()
                    if frame is None:
                        raise ConnectionResetError("the client disconnected before its streams were open")
                    if frame.kind != Kind.SYN_STREAM:
                        self._early.append(frame)
                    elif (channel := CHANNELS.get(frame.headers.get("streamtype", ""))) is not None:
                        await self._accept(frame)
                        self._streams[frame.stream] = channel
        except TimeoutError:
            raise CallError(f"timed out after {OPEN_SECONDS:g} s waiting for the client's streams") from None

    async def send(self, channel: int, data: bytes) -> None:
        for stream, its_channel in self._streams.items():
            if its_channel == channel:
                await self._write(self._writer.data(stream, data))
                return

    async def read(self, feed: Feed) -> None:
        for early in self._early:
            await self._take(early, feed)
        self._early.clear()
        while (frame := await self._next()) is not None:
            await self._take(frame, feed)

    async def _take(self, frame: Frame, feed: Feed) -> None:
        channel = self._streams.get(frame.stream)
        if frame.kind == Kind.DATA and channel == RESIZE:
            for line in frame.data.splitlines():
                await feed(RESIZE, line)
        elif channel == STDIN:
            if frame.data:
                await feed(STDIN, frame.data)
            if frame.fin or frame.kind == Kind.RST_STREAM:
                await feed(CLOSE, bytes((STDIN,)))

    async def finish(self) -> None:
        """Close all streams and the connection."""
        with contextlib.suppress(ConnectionError):
            for stream in self._streams:
                await self._write(self._writer.data(stream, b"", fin=True))
            await self._write(self._writer.goaway(self._last))

    # --- ports ------------------------------------------------------------------------------------------------

    async def forward(self, connect: Callable[[int], socket.socket]) -> None:
        """Forward streams to ports until the client disconnects: a data and an error stream per connection.

        :param connect: opens a connection to a port; raises ``OSError``. Called in a thread.
        """
        ports: dict[int, Port] = {}
        errors: dict[str, int] = {}
        tasks: set[asyncio.Task[None]] = set()
        try:
            while (frame := await self._next()) is not None:
                if frame.kind == Kind.SYN_STREAM:
                    await self._accept(frame)
                    request = frame.headers.get("requestid", "")
                    if frame.headers.get("streamtype") == "error":
                        errors[request] = frame.stream
                    elif len(tasks) < MAX_PORTS and frame.headers.get("port", "").isdecimal():
                        port = ports[frame.stream] = Port(int(frame.headers["port"]))
                        work = self._join(port, frame.stream, errors.pop(request, 0), connect)
                        task = asyncio.create_task(work, name=f"forward port {port.number}")
                        tasks.add(task)
                        task.add_done_callback(tasks.discard)
                elif (joined := ports.get(frame.stream)) is not None:
                    await joined.take(frame)
                    if joined.closed:
                        del ports[frame.stream]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _join(self, port: Port, stream: int, errors: int, connect: Callable[[int], socket.socket]) -> None:
        failure = b""
        try:
            reader, writer = await asyncio.open_connection(sock=await asyncio.to_thread(connect, port.number))
        except OSError as error:
            failure = f"port {port.number}: {error.strerror or error}".encode()
        else:
            feeding = asyncio.create_task(port.pass_on(writer), name=f"feed port {port.number}")
            try:
                with contextlib.suppress(ConnectionError):
                    while data := await reader.read(READ_BYTES):
                        await self._write(self._writer.data(stream, data))
            finally:
                feeding.cancel()
                await asyncio.gather(feeding, return_exceptions=True)
                writer.close()
        port.close()
        with contextlib.suppress(ConnectionError):
            if errors:
                await self._write(self._writer.data(errors, failure, fin=True))
            await self._write(self._writer.data(stream, b"", fin=True))


class Port:
    """Data from a client for one connection of a forwarded port."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.closed = False
        self._waiting: asyncio.Queue[Frame] = asyncio.Queue(MAX_WAITING)

    async def take(self, frame: Frame) -> None:
        """Queue data until the connection has sent it; data after the end is dropped."""
        if not self.closed:
            await self._waiting.put(frame)

    def close(self) -> None:
        """Close the queue; waiting writers are released."""
        self.closed = True
        while not self._waiting.empty():
            self._waiting.get_nowait()

    async def pass_on(self, writer: asyncio.StreamWriter) -> None:
        """Copy the data to the connection, including its end."""
        while True:
            frame = await self._waiting.get()
            with contextlib.suppress(ConnectionError):
                writer.write(frame.data)
                await writer.drain()
            if frame.kind == Kind.RST_STREAM:
                writer.close()
                return
            if frame.fin:
                with contextlib.suppress(OSError):
                    writer.write_eof()
                return
