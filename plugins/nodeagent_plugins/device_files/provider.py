"""Provider of device files; implements :class:`~nodeagent.contracts.devices.DeviceProvider`."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nodeagent.base.aio import Clock
from nodeagent.contracts.device_responses import DeviceResponse
from nodeagent.contracts.devices import DeviceProvider, DeviceRequest, ProvidedDevice, PublishDevices
from nodeagent.contracts.runtime import Device
from nodeagent.errors import ConfigError, DeviceError, Problem
from nodeagent.model.extended_resources import is_extended_resource

POLL_SECONDS = 5.0
"""Interval of searches; udev creates files without a notification that all kernels support."""
_SHARE = "::"


class DeviceFiles:
    """Offers the device files that match patterns.

    :param patterns: paths, with wildcards.
    :param shares: number of devices per file.
    :param root: directory that contains ``dev``.
    """

    has_preference = needs_pre_start = False

    def __init__(
        self,
        resource: str,
        patterns: Sequence[str],
        clock: Clock,
        *,
        permissions: str = "rw",
        shares: int = 1,
        root: Path = Path("/"),
    ) -> None:
        self.resource, self.endpoint = resource, f"device_files {' '.join(patterns)}"
        self._patterns, self._clock, self._permissions = patterns, clock, permissions
        self._shares, self._root = shares, root

    async def watch(self, publish: PublishDevices) -> None:
        published: list[ProvidedDevice] | None = None
        while True:
            devices = await asyncio.to_thread(self._find)
            if devices != published:
                publish(devices)
                published = devices
            await self._clock.sleep(POLL_SECONDS)

    async def allocate(self, request: DeviceRequest) -> DeviceResponse:
        paths = list(dict.fromkeys(map(_path, request.device_ids)))
        for path in paths:
            if not await asyncio.to_thread(_is_device, self._on_host(path)):
                raise DeviceError(f"device file {path} of {self.resource} does not exist")
        return DeviceResponse(devices=[Device(path, path, self._permissions) for path in paths])

    async def prefer(self, available: Sequence[str], required: Sequence[str], count: int) -> Sequence[str]:
        return available

    async def before_start(self, request: DeviceRequest) -> None:
        """Do nothing; the runtime opens the files."""

    def _find(self) -> list[ProvidedDevice]:
        """Return the matching files, several times if they are shared. Blocking."""
        found = {
            f"/{path.relative_to(self._root)}"
            for pattern in self._patterns
            for path in self._root.glob(pattern.lstrip("/"))
            if _is_device(path)
        }
        return [
            ProvidedDevice(path if self._shares == 1 else f"{path}{_SHARE}{share}", numa_nodes=self._nodes(path))
            for path in sorted(found)
            for share in range(self._shares)
        ]

    def _nodes(self, path: str) -> tuple[int, ...]:
        """Return the NUMA node of a device file, if the kernel reports it. Blocking."""
        try:
            status = self._on_host(path).stat()
            kind = "block" if stat.S_ISBLK(status.st_mode) else "char"
            number = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
            directory = self._root / "sys/dev" / kind / number / "device"
            node = int((directory / "numa_node").read_text(encoding="ascii"))
        except (OSError, ValueError):
            return ()
        return (node,) if node >= 0 else ()

    def _on_host(self, path: str) -> Path:
        return self._root / path.lstrip("/")


def providers_of(entries: Sequence[Mapping[str, Any]], clock: Clock) -> Sequence[DeviceProvider]:
    """Return a provider for each resource of the settings.

    :raises ConfigError: a resource is invalid or repeated.
    """
    problems, seen = [], set()
    for index, entry in enumerate(entries):
        name = entry["resource"]
        if not is_extended_resource(name):
            rule = "must be an extended resource: DOMAIN/NAME with another domain than kubernetes.io"
            problems.append(Problem("--plugin-config", f"plugins.device_files.resources[{index}].resource", name, rule))
        elif name in seen:
            rule = "must be unique; list all paths in one entry"
            problems.append(Problem("--plugin-config", f"plugins.device_files.resources[{index}].resource", name, rule))
        seen.add(name)
    if problems:
        raise ConfigError(problems)
    return [
        DeviceFiles(
            entry["resource"],
            entry["paths"],
            clock,
            permissions=entry.get("permissions", "rw"),
            shares=entry.get("shares", 1),
        )
        for entry in entries
    ]


def _path(device: str) -> str:
    return device.partition(_SHARE)[0]


def _is_device(path: Path) -> bool:
    """Return whether *path* is a character or block device; symbolic links are followed. Blocking."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode)
