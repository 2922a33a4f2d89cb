"""Starts and stops the programs of the demo."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from nodeagent.errors import NodeAgentError

START_SECONDS = 30.0
STOP_SECONDS = 15.0
_LOOK_SECONDS = 0.02
MAX_SOCKET_PATH = 107
"""The kernel's limit, in bytes."""


class DemoError(NodeAgentError):
    """Something the demo needs is not there; the text says what to do."""

    reason = "DemoError"


@dataclass(slots=True)
class Program:
    """A started program with the file its output goes to."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    @classmethod
    def start(cls, name: str, arguments: Sequence[str], log: Path) -> Program:
        """Start a module of this installation; its output goes to *log*."""
        with log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches the demo alone, which stops the programs in order
            )
        return cls(name, process, log)

    def check(self) -> None:
        """Raise when the program has ended by itself, with the end of its output."""
        if self.process.poll() is not None:
            tail = self.log.read_text(errors="replace").splitlines()[-8:]
            raise DemoError(f"{self.name} ended with {self.process.returncode}:\n  " + "\n  ".join(tail))

    def stop(self) -> None:
        """End the program: politely, then not."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start_api_server(directory: Path, port: int, node: str) -> tuple[Program, dict[str, Any]]:
    """Start the API server with its data in *directory* and return it with what it says of itself."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    ready = directory / "ready.json"
    ready.unlink(missing_ok=True)
    arguments = ["apiserver_stub", f"--data-dir={directory}", "--bind-address=127.0.0.1", f"--secure-port={port}"]
    arguments += ["--authorization-mode=Node,RBAC", f"--node-name={node}"]
    program = Program.start("API server", arguments, directory / "apiserver.log")
    try:
        _wait(program, ready.exists)
        facts: dict[str, Any] = json.loads(ready.read_text())
    except BaseException:
        program.stop()
        raise
    return program, facts


def start_runtime(directory: Path, socket_path: Path) -> Program:
    """Start the embedded runtime, with its files in *directory*, and wait until it serves at *socket_path*."""
    if len(os.fsencode(socket_path)) > MAX_SOCKET_PATH:
        raise DemoError(f"the path {socket_path} is too long for a socket: name a shorter directory with --dir")
    directory.mkdir(mode=0o711, parents=True, exist_ok=True)
    arguments = ["nodeagent_plugins.embedded_runtime", "--root", str(directory), "--listen", f"unix://{socket_path}"]
    program = Program.start("embedded runtime", arguments, directory / "runtime.log")
    try:
        _wait(program, lambda: _serves(socket_path))
    except BaseException:
        program.stop()
        raise
    return program


def start_agent(directory: Path, arguments: Sequence[str], health_port: int) -> Program:
    """Start the agent and wait until its health port answers."""
    program = Program.start("agent", ["nodeagent", "run", *arguments], directory / "nodeagent.log")
    try:
        _wait(program, lambda: _listens(health_port))
    except BaseException:
        program.stop()
        raise
    return program


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of the programs: those of the run before, else the usual ones; a free one for each that is taken."""

    api_server: int = 6443
    agent: int = 10250
    health: int = 10248

    @classmethod
    def find(cls, file: Path) -> Ports:
        """Choose the ports, and note them in *file* for the next run."""
        try:
            wanted = cls(**json.loads(file.read_text()))
        except (OSError, ValueError, TypeError):
            wanted = cls()
        chosen = cls(*(port if _is_free(port) else _free_port() for port in dataclasses.astuple(wanted)))
        file.write_text(json.dumps(dataclasses.asdict(chosen)))
        return chosen


def take_lock(path: Path) -> IO[str]:
    """Return the open file that keeps a second demo off the same directory.

    :raises DemoError: one runs already.
    """
    file = path.open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise DemoError(f"a demo runs on {path.parent} already; name another directory with --dir") from None
    return file


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # what a run before left closing does not count
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _serves(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(0.2)
        return probe.connect_ex(str(path)) == 0


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.2)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _wait(program: Program, condition: Any) -> None:
    limit = time.monotonic() + START_SECONDS
    while not condition():
        program.check()
        if time.monotonic() > limit:
            raise DemoError(f"{program.name} was not ready within {START_SECONDS:g} s; its output is in {program.log}")
        time.sleep(_LOOK_SECONDS)
