"""Client of the server that forks pause processes and shims."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import threading
from pathlib import Path

from nodeagent_plugins.embedded_runtime.errors import CallError
from nodeagent_plugins.embedded_runtime.helpers import launch

STOP_SECONDS = 5.0


class ForkServer:
    """Starts helpers; the server is started on first use, and again if it was killed.

    :param root: directory of the runtime.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._server: tuple[subprocess.Popen[bytes], socket.socket] | None = None

    async def run(self, helper: str, *arguments: str, attempt: str, timeout_seconds: float) -> str:
        """Start *helper* and return its response.

        :param attempt: description for the error text.
        :raises CallError: the helper failed or did not respond.
        """
        request = os.fsencode("\0".join((helper, *arguments)))
        ours, theirs = socket.socketpair()
        try:
            await asyncio.to_thread(self._send, request, theirs)
            async with asyncio.timeout(timeout_seconds):
                response = await _read(ours)
        except TimeoutError as error:
            raise CallError(f"{attempt}: timed out after {timeout_seconds:g} s") from error
        except OSError as error:
            raise CallError(f"{attempt}: {error}") from error
        finally:
            ours.close()
        text = response.decode(errors="replace")
        if not text or text.startswith("error: "):
            raise CallError(f"{attempt}: {text.removeprefix('error: ') or 'the helper process exited'}")
        return text

    async def close(self) -> None:
        """Stop the server; the helpers keep running."""
        await asyncio.to_thread(self._stop)

    def _send(self, request: bytes, response: socket.socket) -> None:
        # Closed here, because the caller may be cancelled while this thread still sends the descriptor.
        with response, self._lock:
            for is_last in (False, True):
                _, requests = self._server or self._start()
                try:
                    socket.send_fds(requests, [request], [response.fileno()])
                    return
                except (BrokenPipeError, ConnectionResetError):
                    self._stop_now()
                    if is_last:
                        raise

    def _start(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            number = theirs.fileno()
            command = launch.command("fork_server", str(number), str(self._root))
            try:
                process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[number])
            except OSError:
                ours.close()
                raise
        self._server = process, ours
        return self._server

    def _stop(self) -> None:
        with self._lock:
            self._stop_now()

    def _stop_now(self) -> None:
        if self._server is None:
            return
        process, requests = self._server
        self._server = None
        requests.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
            return
        process.kill()
        process.wait()


async def _read(connection: socket.socket) -> bytes:
    reader, writer = await asyncio.open_connection(sock=connection)
    try:
        return await reader.read()
    finally:
        writer.close()
