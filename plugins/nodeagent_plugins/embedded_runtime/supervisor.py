"""Supervisor that starts a runtime if none serves the endpoint, and restarts it."""

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
    """Monitors the process that serves *endpoint*, which can be a runtime of a previous agent or an external one.

    :param root: the runtime's directory.
    :param options: additional command-line options.
    """

    def __init__(self, endpoint: str, root: Path, options: list[str], clock: Clock) -> None:
        self._endpoint, self._root, self._options, self._clock = endpoint, root, options, clock
        self._socket = Path(endpoint.removeprefix("unix://"))

    async def run(self) -> None:
        """Run until cancelled; the runtime keeps running."""
        backoff = Backoff(0.5, 30.0)
        while True:
            server = await asyncio.to_thread(find_server, self._socket)
            if server is None:
                try:
                    await asyncio.to_thread(self._start)
                except (OSError, subprocess.SubprocessError) as error:
                    _log.error("Failed to start embedded runtime", extra={"err": _text(error)})
                    await self._clock.sleep(backoff.next())
                continue
            backoff.reset()
            await server.ended()
            _log.warning("Container runtime exited", extra={"pid": server.pid})
            await self._clock.sleep(backoff.next())

    def _start(self) -> None:
        """Start the runtime and wait until it serves."""
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
        _log.info("Started embedded runtime", extra={"endpoint": self._endpoint, "root": str(self._root)})


def find_server(path: Path) -> Process | None:
    """Return the process that listens at the socket *path*; ``None`` if there is none."""
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
