"""systemd driver: systemd manages slices; limits without a unit property are written to the cgroup file system."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from nodeagent_plugins.cgroups.files import CgroupFiles
from nodeagent_plugins.cgroups.formulas import DEFAULT_PERIOD_US, cpu_weight
from nodeagent_plugins.cgroups.limits import UNLIMITED, CgroupLimits
from nodeagent_plugins.cgroups.names import CgroupName, Driver, parse_slice, pod_uid, slice_name, slice_path

Property = tuple[str, str, object]
"""Name, D-Bus signature and value of a unit property."""

_INFINITY = 2**64 - 1
_QUOTA_STEP_US = 10_000
"""systemd rounds the quota to hundredths of a CPU."""
_UNIFIED_PROPERTIES = {"memory.min": "MemoryMin", "memory.low": "MemoryLow", "memory.high": "MemoryHigh"}


class Units(Protocol):
    """Operations on systemd slices. Every call is idempotent and raises ``CgroupError`` on failure."""

    async def start_slice(self, unit: str, properties: Sequence[Property]) -> None:
        """Start a transient slice; an existing slice is updated."""
        ...

    async def set_properties(self, unit: str, properties: Sequence[Property]) -> None:
        """Change the properties of a unit until the next boot."""
        ...

    async def stop(self, unit: str) -> None:
        """Stop a unit with all its processes; a missing unit is ignored."""
        ...


class SystemdDriver:
    """Manages cgroups as systemd slices.

    :param files: the file system of the same cgroups.
    """

    def __init__(self, files: CgroupFiles, units: Units) -> None:
        self._files, self._units = files, units

    def find(self, path: str) -> CgroupName:
        return parse_slice(path)

    def paths(self, name: CgroupName) -> list[Path]:
        return self._files.hierarchy.paths(slice_path(name))

    async def lacks(self, name: CgroupName, controllers: Sequence[str]) -> list[str]:
        return await asyncio.to_thread(self._files.hierarchy.lacks, slice_path(name), controllers)

    async def missing(self, names: Sequence[CgroupName]) -> list[CgroupName]:
        return await asyncio.to_thread(lambda: [name for name in names if not self._files.exists(slice_path(name))])

    async def make(self, name: CgroupName, limits: CgroupLimits | None = None, *, mark: bool = False) -> None:
        limits = limits or CgroupLimits()
        await asyncio.to_thread(self._files.check_usage, slice_path(name), limits)
        unified = self._files.hierarchy.unified
        await self._units.start_slice(slice_name(name), [*_kind(name, unified), *limit_properties(limits, unified)])
        await asyncio.to_thread(self._files.make, slice_path(name), limits, mark=mark)

    async def limit(self, name: CgroupName, limits: CgroupLimits) -> None:
        await asyncio.to_thread(self._files.check_usage, slice_path(name), limits)
        properties = limit_properties(limits, self._files.hierarchy.unified)
        if properties:
            await self._units.set_properties(slice_name(name), properties)
        await asyncio.to_thread(self._files.limit, slice_path(name), limits)

    async def memory_usage(self, name: CgroupName) -> int:
        return await asyncio.to_thread(self._files.memory_usage, slice_path(name))

    async def pods(self, above: CgroupName) -> list[str]:
        found = await asyncio.to_thread(self._files.children, slice_path(above))
        return [uid for child in found if (uid := pod_uid(child, above, Driver.SYSTEMD))]

    async def kill_below(self, name: CgroupName, part: str) -> None:
        await asyncio.to_thread(self._files.kill_below, slice_path(name), part)

    async def remove(self, name: CgroupName) -> None:
        path = slice_path(name)
        await asyncio.to_thread(self._files.kill, path)
        await self._units.stop(slice_name(name))
        await asyncio.to_thread(self._files.remove, path)


def limit_properties(limits: CgroupLimits, unified: bool) -> list[Property]:
    """Return the unit properties for *limits*, which keep systemd from resetting them."""
    found: list[Property] = []
    if limits.cpu_shares is not None:
        weight = cpu_weight(limits.cpu_shares) if unified else limits.cpu_shares
        found.append(("CPUWeight" if unified else "CPUShares", "t", weight))
    if limits.cpu_quota is not None:
        found.append(("CPUQuotaPerSecUSec", "t", _quota_per_second(limits.cpu_quota, limits.cpu_period)))
        if limits.cpu_period != DEFAULT_PERIOD_US:
            found.append(("CPUQuotaPeriodUSec", "t", limits.cpu_period))
    if limits.memory_bytes is not None:
        found.append(("MemoryMax" if unified else "MemoryLimit", "t", _or_infinity(limits.memory_bytes)))
    if limits.pids is not None:
        found.append(("TasksMax", "t", _or_infinity(limits.pids)))
    if unified:
        for file, value in limits.unified.items():
            if file in _UNIFIED_PROPERTIES:
                found.append((_UNIFIED_PROPERTIES[file], "t", _INFINITY if value == "max" else int(value)))
    return found


def _kind(name: CgroupName, unified: bool) -> list[Property]:
    """Return the properties of the agent's slices: parent slice, accounting, and no stop job at shutdown."""
    above: list[Property] = [("Wants", "as", [slice_name(name[:-1])])] if len(name) > 1 else []
    return [
        ("Description", "s", "Pods of the node agent"),
        ("DefaultDependencies", "b", False),
        *above,
        ("CPUAccounting", "b", True),
        ("MemoryAccounting", "b", True),
        ("TasksAccounting", "b", True),
        ("IOAccounting" if unified else "BlockIOAccounting", "b", True),
    ]


def _quota_per_second(quota: int, period: int) -> int:
    if quota == UNLIMITED:
        return _INFINITY
    exact = quota * 1_000_000 // period
    return -(-exact // _QUOTA_STEP_US) * _QUOTA_STEP_US


def _or_infinity(amount: int) -> int:
    return _INFINITY if amount == UNLIMITED else amount
