"""Connection of streaming sessions to commands, containers and ports."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import socket
import struct
import termios
import threading
from typing import Any

import msgspec

from nodeagent_plugins.embedded_runtime.channels import CLOSE, RESIZE, STDERR, STDIN, STDOUT, Feed, Session
from nodeagent_plugins.embedded_runtime.containers import Containers
from nodeagent_plugins.embedded_runtime.errors import CallError
from nodeagent_plugins.embedded_runtime.execution import Execution, Prepared
from nodeagent_plugins.embedded_runtime.helpers import syscalls
from nodeagent_plugins.embedded_runtime.sandboxes import Sandboxes
from nodeagent_plugins.embedded_runtime.shim_client import open_shim
from nodeagent_plugins.embedded_runtime.spdy_session import SpdySession

READ_BYTES = 32 * 1024
CONNECT_SECONDS = 10.0
DRAIN_SECONDS = 2.0


class Streams:
    """Executes streaming requests."""

    def __init__(self, sandboxes: Sandboxes, containers: Containers, execution: Execution) -> None:
        self._sandboxes, self._containers, self._execution = sandboxes, containers, execution

    async def run(self, kind: str, request: Any, session: Session) -> None:
        """Execute *request* until it has completed or the client has disconnected."""
        if kind == "portforward":
            if isinstance(session, SpdySession):
                path = self._sandboxes.records.get(request.pod_sandbox_id).namespace("net")
                await session.forward(lambda port: connect_inside(path, port))
            else:
                await self._forward(request, session)
            return
        if isinstance(session, SpdySession):
            await session.open(request)
        container = self._containers.records.get(request.container_id)
        if kind == "attach":
            await self._attach(self._containers.records.directory(container.id), request, session)
            return
        with self._execution.prepared(container, list(request.cmd), terminal=request.tty) as prepared:
            await (_run_in_terminal if request.tty else _run_in_pipes)(prepared, request, session)

    async def _attach(self, directory: Any, request: Any, session: Session) -> None:
        reader, writer = await open_shim(directory, "attach")

        async def feed(channel: int, data: bytes) -> None:
            if channel == STDIN and request.stdin:
                writer.write(b"\0" + len(data).to_bytes(4, "big") + data)
            elif channel == CLOSE and data[:1] == bytes((STDIN,)):
                writer.write(b"\3" + bytes(4))
            elif channel == RESIZE:
                rows, columns = _size(data)
                writer.write(b"\4" + (4).to_bytes(4, "big") + struct.pack("!HH", rows, columns))
            await writer.drain()

        async def show() -> None:
            with contextlib.suppress(asyncio.IncompleteReadError):
                while True:
                    head = await reader.readexactly(5)
                    data = await reader.readexactly(int.from_bytes(head[1:], "big"))
                    if (head[0] == STDOUT and request.stdout) or (head[0] == STDERR and request.stderr):
                        await session.send(head[0], data)

        try:
            if await _first(show(), session.read(feed)):
                await session.succeed()
        finally:
            writer.close()

    async def _forward(self, request: Any, session: Session) -> None:
        """Forward ports of a pod: a data and an error channel per port, both of which start with the port number."""
        sandbox = self._sandboxes.records.get(request.pod_sandbox_id)
        path = sandbox.namespace("net")
        writers: dict[int, asyncio.StreamWriter] = {}
        shows = []
        for number, port in enumerate(request.port):
            data_channel, error_channel = 2 * number, 2 * number + 1
            for channel in (data_channel, error_channel):
                await session.send(channel, struct.pack("<H", port))
            try:
                connection = await asyncio.to_thread(connect_inside, path, port)
                reader, writers[data_channel] = await asyncio.open_connection(sock=connection)
                shows.append(_copy(reader, session, data_channel))
            except OSError as error:
                await session.send(error_channel, f"port {port}: {error.strerror or error}".encode())

        async def feed(channel: int, data: bytes) -> None:
            if (writer := writers.get(channel)) is not None:
                writer.write(data)
                await writer.drain()

        async def show() -> None:
            await asyncio.gather(*shows)

        try:
            if shows:
                await _first(show(), session.read(feed))
        finally:
            for writer in writers.values():
                writer.close()


async def _run_in_pipes(prepared: Prepared, request: Any, session: Session) -> None:
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    runner = await asyncio.create_subprocess_exec(
        *prepared.words,
        stdin=pipe if request.stdin else nothing,
        stdout=pipe if request.stdout else nothing,
        stderr=pipe if request.stderr else nothing,
        start_new_session=True,
    )

    async def feed(channel: int, data: bytes) -> None:
        if runner.stdin is None:
            return
        with contextlib.suppress(ConnectionError):
            if channel == STDIN:
                runner.stdin.write(data)
                await runner.stdin.drain()
            elif channel == CLOSE and data[:1] == bytes((STDIN,)):
                runner.stdin.close()

    shows = [
        _copy(stream, session, channel)
        for stream, channel in ((runner.stdout, STDOUT), (runner.stderr, STDERR))
        if stream is not None
    ]
    await _until_ended(prepared, runner, shows, session, feed)


async def _run_in_terminal(prepared: Prepared, request: Any, session: Session) -> None:
    ours, theirs = os.openpty()
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    try:
        runner = await asyncio.create_subprocess_exec(
            *prepared.words, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
    finally:
        os.close(theirs)
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(os.dup(ours), "rb")
    )

    async def feed(channel: int, data: bytes) -> None:
        if channel == STDIN and request.stdin:
            await asyncio.to_thread(os.write, ours, data)
        elif channel == RESIZE:
            rows, columns = _size(data)
            fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            with contextlib.suppress(ProcessLookupError):
                runner.send_signal(signal.SIGWINCH)  # the terminal is not the runner's own, so it hears of it from us

    try:
        await _until_ended(prepared, runner, [_copy(reader, session, STDOUT)], session, feed)
    finally:
        transport.close()
        os.close(ours)


async def _until_ended(
    prepared: Prepared,
    runner: asyncio.subprocess.Process,
    shows: list[Any],
    session: Session,
    feed: Feed,
) -> None:
    """Wait for the command and report its exit code; the command is killed if the client disconnects."""

    async def work() -> None:
        shown = [asyncio.create_task(show, name="show a command's output") for show in shows]
        try:
            await runner.wait()
            await asyncio.wait(shown, timeout=DRAIN_SECONDS) if shown else None
        finally:
            for task in shown:
                task.cancel()
            await asyncio.gather(*shown, return_exceptions=True)

    try:
        ended = await _first(work(), session.read(feed))
    finally:
        await prepared.end(runner)
    if not ended:
        return
    if (failure := prepared.failure()) is not None:
        raise CallError(failure)
    code = runner.returncode or 0
    await session.succeed(code if code >= 0 else 128 - code)


async def _first(work: Any, reading: Any) -> bool:
    """Run both until *work* has completed (return true), or the client has disconnected."""
    tasks = [asyncio.create_task(work, name="stream"), asyncio.create_task(reading, name="client")]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error
    return tasks[0] in done


async def _copy(reader: asyncio.StreamReader, session: Session, channel: int) -> None:
    with contextlib.suppress(OSError):  # Reading from a closed terminal fails.
        while data := await reader.read(READ_BYTES):
            await session.send(channel, data)


def connect_inside(namespace: str, port: int) -> socket.socket:
    """Return a connection to *port* on the loopback address of the network *namespace*; empty for that of the node.

    :raises OSError: the connection failed.
    """
    result: list[socket.socket | OSError] = []

    def connect() -> None:
        try:
            if namespace:
                syscalls.join(namespace, syscalls.CLONE_NEWNET)
            result.append(_connect(port))
        except OSError as error:
            result.append(error)

    # A separate thread, because it cannot leave the network namespace.
    thread = threading.Thread(target=connect, name="port forward")
    thread.start()
    thread.join()
    (found,) = result
    if isinstance(found, OSError):
        raise found
    found.setblocking(False)
    return found


def _connect(port: int) -> socket.socket:
    try:
        return socket.create_connection(("127.0.0.1", port), CONNECT_SECONDS)
    except ConnectionRefusedError:
        return socket.create_connection(("::1", port), CONNECT_SECONDS)


def _size(data: bytes) -> tuple[int, int]:
    """Return rows and columns; the default size if the data is invalid."""
    try:
        requested = msgspec.json.decode(data, type=dict[str, int])
        rows, columns = requested["Height"], requested["Width"]
    except (ValueError, KeyError):
        return 24, 80
    return max(1, min(rows, 65535)), max(1, min(columns, 65535))
