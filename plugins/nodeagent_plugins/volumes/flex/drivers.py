"""Driver discovery: ``<directory>/<vendor>~<driver>/<driver>``, or ``<driver>/<driver>`` without a vendor."""

from __future__ import annotations

import asyncio
import os
import re
import stat
from pathlib import Path

from msgspec import field

from nodeagent.base.aio.command import run_command
from nodeagent.base.structs import MutableStruct
from nodeagent.errors import VolumeError
from nodeagent_plugins.volumes.flex.calls import Capabilities, Driver, Run

_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_MOST_PARTS = 2

Version = tuple[str, int, int, int, int, int]
"""Identity of an executable; changes when the file is replaced or modified."""


class _Known(MutableStruct):
    """A discovered driver; valid while its file is unchanged."""

    driver: Driver
    version: Version
    capabilities: Capabilities | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Drivers:
    """Discovers drivers on demand, so that added, changed and removed drivers take effect immediately."""

    def __init__(self, directory: Path, run: Run = run_command) -> None:
        self._directory, self._run = directory, run
        self._known: dict[str, _Known] = {}

    async def get(self, name: str) -> tuple[Driver, Capabilities]:
        """Return the driver that pods call *name*; a new or changed driver is initialized.

        :raises VolumeError: the driver is missing, not executable or failed.
        """
        try:
            version = await asyncio.to_thread(self._detect, name)
        except VolumeError:
            self._known.pop(name, None)
            raise
        known = self._known.get(name)
        if known is None or known.version != version:
            known = self._known[name] = _Known(Driver(name, Path(version[0]), self._run), version)
        async with known.lock:
            if known.capabilities is None:
                known.capabilities = await known.driver.init()
        return known.driver, known.capabilities

    def installed(self, directory_name: str) -> bool:
        """Return whether there is a driver for volume directories with that name. Blocks briefly."""
        try:
            self._detect(directory_name.replace("~", "/"))
        except VolumeError:
            return False
        return True

    def _detect(self, name: str) -> Version:
        """Return the current version of the driver's executable."""
        if not is_name(name):
            raise VolumeError(f"invalid volume driver name {name!r}: use [VENDOR/]DRIVER of letters, digits, -, _, .")
        path = self._directory / directory_name(name) / name.rpartition("/")[2]
        try:
            executable = Path(os.path.realpath(path, strict=True))
            status = executable.stat()
        except FileNotFoundError:
            raise VolumeError(f"no volume driver {name!r} in {self._directory}") from None
        except OSError as error:
            raise VolumeError(f"volume driver {name!r}: {error.strerror}: {error.filename}") from error
        if not executable.is_relative_to(os.path.realpath(self._directory)):
            raise VolumeError(f"volume driver {name!r} is a link to a file outside of {self._directory}")
        if not stat.S_ISREG(status.st_mode) or not os.access(executable, os.X_OK):
            raise VolumeError(f"volume driver {name!r} is not executable: {path}")
        return str(executable), status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size


def directory_name(driver: str) -> str:
    """Return the directory name of a driver."""
    return driver.replace("/", "~")


def is_name(driver: str) -> bool:
    """Return whether *driver* is a valid name; other names could refer to a path outside of the directory."""
    parts = driver.split("/")
    return len(parts) <= _MOST_PARTS and all(_PART.fullmatch(part) for part in parts)
