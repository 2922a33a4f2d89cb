"""Emulation of systemd units: environment, commands, stop behavior and sd_notify messages."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

UNITS = Path(__file__).parents[3] / "systemd"
PROGRAMS = Path(sys.executable).parent
CGROUPS = Path("/sys/fs/cgroup")


class Unit:
    """Unit file; the last value of a repeated setting is effective."""

    def __init__(self, name: str) -> None:
        lines = (UNITS / name).read_text().splitlines()
        self.settings = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))

    def command(self, environment: Mapping[str, str], paths: Mapping[str, str]) -> list[str]:
        """Return the command line, with the executables of this installation and other *paths*."""
        text = self.settings["ExecStart"].replace("/usr/local/bin/", f"{PROGRAMS}/")
        for path, other in paths.items():
            text = text.replace(path, other)
        words = []
        for word in shlex.split(text):
            words += environment.get(word[1:], "").split() if word.startswith("$") else [word]
        return words


class NotifySocket:
    """Socket for ``NOTIFY_SOCKET`` that records the messages.

    :param path: empty for an abstract socket.
    """

    def __init__(self, path: str = "") -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.address = path or f"@nodeagent-test-{os.getpid()}-{id(self)}"
        self._socket.bind(path or f"\0{self.address[1:]}")
        self.messages: list[str] = []

    def until(self, text: str, seconds: float = 30.0) -> None:
        """Wait for a new line that starts with *text*."""
        start = len(self.messages)
        limit = time.monotonic() + seconds
        while not any(line.startswith(text) for line in self.messages[start:]):
            left = limit - time.monotonic()
            assert left > 0, f"{text} was not received within {seconds:g} s, but {self.messages}"
            self.listen(min(left, 0.5))

    def listen(self, seconds: float) -> None:
        """Receive the next message, if there is one in time."""
        self._socket.settimeout(seconds)
        with contextlib.suppress(TimeoutError):
            self.messages += self._socket.recv(4096).decode().splitlines()

    def close(self) -> None:
        self._socket.close()


class Service:
    """Running unit in a separate control group, as with systemd."""

    def __init__(self, unit: str, directory: Path, *, flags: Mapping[str, str], paths: Mapping[str, str]) -> None:
        self.unit, self.directory = Unit(unit), directory
        self.notify = NotifySocket()
        self._flags, self._paths = flags, paths
        self._group = _create_cgroup(f"nodeagent-test-{os.getpid()}-{id(self)}")
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, watchdog_seconds: float = 60.0) -> None:
        variables = {"NOTIFY_SOCKET": self.notify.address, "WATCHDOG_USEC": str(int(watchdog_seconds * 1e6))}
        command = self.unit.command(self._flags, self._paths)
        join = ["/bin/sh", "-c", f'echo $$ > {self._group}/cgroup.procs && exec "$@"', "join"]
        with (self.directory / "service.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*join, *command], env={**os.environ, **variables}, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send *number* to the processes that ``KillMode`` specifies, and then SIGKILL to the remaining ones."""
        assert self.process is not None
        mode = self.unit.settings.get("KillMode", "control-group")
        if mode == "process":
            self.process.send_signal(number)
            return self.process.wait(30)
        for pid in self.members():
            os.kill(pid, number)
        code = self.process.wait(30)
        for pid in self.members():
            os.kill(pid, signal.SIGKILL)
        return code

    def members(self) -> list[int]:
        return [int(pid) for pid in (self._group / "cgroup.procs").read_text().split()]

    def log(self) -> str:
        return (self.directory / "service.log").read_text()[-4000:]

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.notify.close()
        limit = time.monotonic() + 10
        while self.members() and time.monotonic() < limit:
            for pid in self.members():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        with contextlib.suppress(OSError):
            self._group.rmdir()


def _create_cgroup(name: str) -> Path:
    """Create a control group without limits, to track processes."""
    version_1 = CGROUPS / "pids"
    directory = (version_1 if version_1.is_dir() else CGROUPS) / name
    directory.mkdir()
    return directory
