"""Process of the fake runtime."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_START_SECONDS = 30.0
_STOP_SECONDS = 15.0
_POLL_SECONDS = 0.01


class RuntimeFailed(Exception):
    """The runtime did not start; the message contains its output."""


@dataclass(frozen=True)
class RuntimeHandle:
    """A running fake runtime."""

    socket: Path
    pid: int

    @property
    def endpoint(self) -> str:
        """The ``containerRuntimeEndpoint`` of an agent."""
        return f"unix://{self.socket}"


@contextmanager
def started_runtime(directory: Path, *, python: Sequence[str] = (sys.executable,)) -> Iterator[RuntimeHandle]:
    """Start a runtime with its socket in *directory*, and stop it on exit.

    :param python: command of the interpreter.
    :raises RuntimeFailed: the runtime did not start.
    """
    socket, log = directory / "fake-runtime.sock", directory / "fake-runtime.log"
    socket.unlink(missing_ok=True)
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*python, "-m", "nodeagent.testing.cri", str(socket)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        end = time.monotonic() + _START_SECONDS
        while not socket.exists():
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeFailed(f"fake runtime did not start: {log.read_text(errors='replace').strip()}")
            time.sleep(_POLL_SECONDS)
        yield RuntimeHandle(socket, process.pid)
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
