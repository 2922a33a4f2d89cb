"""Keeps a runtime serving at the endpoint: starts one where there is none, and again when it has ended."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

from nodeagent.base.aio import Backoff, Clock
from nodeagent_plugins.embedded_runtime.processes import Process

_log = logging.getLogger(__name__)
START_SECONDS = 30.0


class Supervisor:
    """Watches who serves at *endpoint*, which may be a runtime that an earlier agent started, or any other.

    :param root: the runtime's directory.
    :param options: more of its command line.
    """

    def __init__(self, endpoint: str, root: Path, options: list[str], clock: Clock) -> None:
        self._endpoint, self._root, self._options, self._clock = endpoint, root, options, clock
        self._socket = Path(endpoint.removeprefix("unix://"))

    async def run(self) -> None:
        """Keep it serving until cancelled; the runtime itself goes on."""
        backoff = Backoff(0.5, 30.0)
        while True:
            server = await asyncio.to_thread(find_server, self._socket)
            if server is None:
                try:
                    await asyncio.to_thread(self._start)
                except (OSError, subprocess.SubprocessError) as error:
                    _log.error("Embedded runtime does not start", extra={"err": _text(error)})
                    await self._clock.sleep(backoff.next())
                continue
            backoff.reset()
            await server.ended()
            _log.warning("The container runtime has ended", extra={"pid": server.pid})
            await self._clock.sleep(backoff.next())

    def _start(self) -> None:
        """Start the runtime and return once it serves."""
        self._root.mkdir(parents=True, exist_ok=True)
        words = ["--root", str(self._root), "--listen", self._endpoint, *self._options]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        subprocess.run(
            [sys.executable, "-m", "nodeagent_plugins.embedded_runtime", *words, "--detach"],
            check=True,
            capture_output=True,
            text=True,
            timeout=START_SECONDS,
            env=environment,
        )
        _log.info("Embedded runtime started", extra={"endpoint": self._endpoint, "root": str(self._root)})


def find_server(path: Path) -> Process | None:
    """Return the process that listens at the socket *path*; ``None`` if nobody does."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(1.0)
        try:
            connection.connect(str(path))
            pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        except OSError:
            return None
    return Process.of(pid)


def _text(error: Exception) -> str:
    output = getattr(error, "stderr", None)
    return str(output).strip()[-1000:] if output else str(error)
