"""Processes of the demo: API server, embedded runtime and agent."""

from __future__ import annotations

import contextlib
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
from pathlib import Path
from typing import IO, Any

from nodeagent.base.mounts.calls import unmount
from nodeagent.base.release import NEWEST
from nodeagent.base.structs import MutableStruct, Struct
from nodeagent.errors import NodeAgentError

START_SECONDS = 30.0
STOP_SECONDS = 15.0
_POLL_SECONDS = 0.02
MAX_SOCKET_PATH = 107
"""Maximum length of the path of a Unix socket in bytes, a limit of the kernel."""


class DemoError(NodeAgentError):
    """The demo cannot run; the message contains a remedy."""

    reason = "DemoError"


class DemoProcess(MutableStruct):
    """A started process, with the log file for its output."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    @classmethod
    def start(cls, name: str, arguments: Sequence[str], log: Path) -> DemoProcess:
        """Start a module of this installation; its output is appended to *log*."""
        with log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C must reach only the demo, which stops the processes in order.
            )
        return cls(name, process, log)

    def check(self) -> None:
        """Check that the process is still running.

        :raises DemoError: it has exited; the message contains the end of its output.
        """
        if self.process.poll() is not None:
            tail = self.log.read_text(errors="replace").splitlines()[-8:]
            raise DemoError(f"{self.name} exited with code {self.process.returncode}:\n  " + "\n  ".join(tail))

    def stop(self) -> None:
        """Terminate the process, with SIGKILL if it does not exit within ``STOP_SECONDS``."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def release_root(root: Path) -> None:
    """Unmount the agent's root directory, a shared mount of itself, so that users can remove it. Blocking.

    It remains mounted while pods are left: a driver in a container makes its mounts below it.

    :param root: the root directory.
    """
    with contextlib.suppress(OSError):
        if not any((root / "pods").iterdir()):
            unmount(root)


def start_api_server(directory: Path, port: int, node: str) -> tuple[DemoProcess, dict[str, Any]]:
    """Start the API server with its data in *directory*; return its process and the content of its ready file.

    :raises DemoError: it is not ready in time.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    ready = directory / "ready.json"
    ready.unlink(missing_ok=True)
    arguments = ["apiserver_stub", f"--data-dir={directory}", "--bind-address=127.0.0.1", f"--secure-port={port}"]
    arguments += ["--authorization-mode=Node,RBAC", f"--node-name={node}", f"--compatibility-version={NEWEST}"]
    arguments += ["--allow-privileged"]  # Pods of drivers and network add-ons are privileged.
    process = DemoProcess.start("API server", arguments, directory / "apiserver.log")
    try:
        _wait(process, ready.exists)
        server: dict[str, Any] = json.loads(ready.read_text())
    except BaseException:
        process.stop()
        raise
    return process, server


def start_runtime(directory: Path, socket_path: Path) -> DemoProcess:
    """Start the embedded runtime, with its files in *directory*, and wait until it listens on *socket_path*.

    :raises DemoError: it is not ready in time, or the path is too long.
    """
    if len(os.fsencode(socket_path)) > MAX_SOCKET_PATH:
        raise DemoError(f"path too long for a socket: {socket_path}; specify a shorter directory with --dir")
    directory.mkdir(mode=0o711, parents=True, exist_ok=True)
    arguments = ["nodeagent_plugins.embedded_runtime", "--root", str(directory), "--listen", f"unix://{socket_path}"]
    process = DemoProcess.start("embedded runtime", arguments, directory / "runtime.log")
    try:
        _wait(process, lambda: _accepts_connections(socket_path))
    except BaseException:
        process.stop()
        raise
    return process


def start_agent(directory: Path, arguments: Sequence[str], health_port: int) -> DemoProcess:
    """Start the agent and wait until it listens on its health port.

    :raises DemoError: it is not ready in time.
    """
    process = DemoProcess.start("agent", ["nodeagent", "run", *arguments], directory / "nodeagent.log")
    try:
        _wait(process, lambda: _listens(health_port))
    except BaseException:
        process.stop()
        raise
    return process


class Ports(Struct, frozen=True):
    """Ports of the processes: those of the previous run, or the defaults; a port in use is replaced by a free one."""

    api_server: int = 6443
    agent: int = 10250
    health: int = 10248

    @classmethod
    def find(cls, file: Path) -> Ports:
        """Select the ports, and store them in *file* for the next run."""
        try:
            preferred = cls(**json.loads(file.read_text()))
        except (OSError, ValueError, TypeError):
            preferred = cls()
        selected = cls(*(port if _is_free(port) else _free_port() for port in dataclasses.astuple(preferred)))
        file.write_text(json.dumps(dataclasses.asdict(selected)))
        return selected


def acquire_lock(path: Path) -> IO[str]:
    """Lock the demo's directory; the lock is held while the returned file is open.

    :raises DemoError: another demo holds the lock.
    """
    file = path.open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise DemoError(f"{path.parent} is in use by another demo; specify another directory with --dir") from None
    return file


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # Ignore the previous run's sockets in TIME_WAIT.
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


def _accepts_connections(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(0.2)
        return probe.connect_ex(str(path)) == 0


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.2)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _wait(process: DemoProcess, condition: Any) -> None:
    limit = time.monotonic() + START_SECONDS
    while not condition():
        process.check()
        if time.monotonic() > limit:
            raise DemoError(
                f"timed out after {START_SECONDS:g} s waiting for {process.name}; see its log {process.log}"
            )
        time.sleep(_POLL_SECONDS)
