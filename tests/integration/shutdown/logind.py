"""Fake logind on a private message bus."""

# ruff: noqa: F821, UP037  (annotations are D-Bus signatures)

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dbus_fast import PropertyAccess
from dbus_fast.aio import MessageBus
from dbus_fast.service import ServiceInterface, dbus_method, dbus_property, dbus_signal

CONFIG = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <listen>unix:path={socket}</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow own="*"/>
    <allow receive_sender="*"/>
  </policy>
</busconfig>
"""


@contextmanager
def message_bus(directory: Path) -> Iterator[str]:
    """Run a message bus in *directory*; yields its address."""
    config, socket = directory / "bus.conf", directory / "bus.sock"
    socket.unlink(missing_ok=True)
    config.write_text(CONFIG.format(socket=socket))
    with subprocess.Popen(
        ["dbus-daemon", f"--config-file={config}", "--nofork", "--print-address=1"], stdout=subprocess.PIPE
    ) as daemon:
        try:
            assert daemon.stdout is not None
            ready, _, _ = select.select([daemon.stdout], [], [], 10)
            assert ready, "the message bus did not start"
            assert daemon.stdout.readline()
            yield f"unix:path={socket}"
        finally:
            daemon.terminate()
            daemon.wait(10)


class LoginManager(ServiceInterface):
    """The part of ``org.freedesktop.login1.Manager`` that inhibitors use."""

    def __init__(self, delay_seconds: float) -> None:
        super().__init__("org.freedesktop.login1.Manager")
        self.delay = int(delay_seconds * 1_000_000)
        self.preparing = False
        self.requests: list[tuple[str, ...]] = []
        self._locks: list[int] = []

    @dbus_method()
    def Inhibit(self, what: "s", who: "s", why: "s", mode: "s") -> "h":
        self.requests.append((what, who, why, mode))
        ours, theirs = os.pipe()
        self._locks.append(ours)
        os.set_blocking(ours, False)
        self._issued = theirs
        return theirs

    @dbus_property(access=PropertyAccess.READ)
    def InhibitDelayMaxUSec(self) -> "t":
        return self.delay

    @dbus_property(access=PropertyAccess.READ)
    def PreparingForShutdown(self) -> "b":
        return self.preparing

    @dbus_signal()
    def PrepareForShutdown(self, start: bool) -> "b":
        return start

    def prepare(self, start: bool) -> None:
        """Signal that a shutdown starts, or that it was cancelled."""
        self.preparing = start
        self.PrepareForShutdown(start)

    def held(self) -> list[bool]:
        """Return for each issued lock whether it is still held."""
        self.drop_issued()
        return [_open(lock) for lock in self._locks]

    def drop_issued(self) -> None:
        """Close the local copy of the last issued descriptor."""
        issued, self._issued = getattr(self, "_issued", -1), -1
        if issued >= 0:
            os.close(issued)

    def close(self) -> None:
        self.drop_issued()
        for lock in self._locks:
            os.close(lock)


class SystemManager(ServiceInterface):
    """``org.freedesktop.systemd1.Manager``: a signal to logind makes it reload its configuration."""

    def __init__(self, logind: LoginManager, drop_ins: Path) -> None:
        super().__init__("org.freedesktop.systemd1.Manager")
        self._logind, self._drop_ins = logind, drop_ins
        self.killed: list[tuple[str, str, int]] = []
        self.obeys = True

    @dbus_method()
    def KillUnit(self, name: "s", whom: "s", signal: "i"):
        self.killed.append((name, whom, signal))
        for file in sorted(self._drop_ins.glob("*.conf")) if self.obeys else ():
            for line in file.read_text().splitlines():
                if line.startswith("InhibitDelayMaxSec="):
                    self._logind.delay = int(line.partition("=")[2]) * 1_000_000


async def serve(address: str, *interfaces: tuple[str, str, ServiceInterface]) -> MessageBus:
    """Export *interfaces*, each with its name and path, on the bus at *address*."""
    bus = await MessageBus(bus_address=address, negotiate_unix_fd=True).connect()
    for name, path, interface in interfaces:
        bus.export(path, interface)
        await bus.request_name(name)
    return bus


def _open(lock: int) -> bool:
    try:
        return os.read(lock, 1) != b""
    except BlockingIOError:
        return True
