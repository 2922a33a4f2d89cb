"""Who makes cgroups: the agent itself through files."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from nodeagent_plugins.cgroups.files import CgroupFiles
from nodeagent_plugins.cgroups.limits import CgroupLimits
from nodeagent_plugins.cgroups.names import CgroupName, Driver, parse_name, pod_uid


class CgroupDriver(Protocol):
    """Makes, limits and removes cgroups. Every call may be repeated."""

    def find(self, path: str) -> CgroupName:
        """Return the cgroup that the configuration names."""
        ...

    async def lacks(self, name: CgroupName, controllers: Sequence[str]) -> list[str]:
        """Return those of *controllers* that the cgroup does not exist for."""
        ...

    async def missing(self, names: Sequence[CgroupName]) -> list[CgroupName]:
        """Return those of *names* that do not exist, in whole or in part."""
        ...

    async def make(self, name: CgroupName, limits: CgroupLimits | None = None, *, mark: bool = False) -> None:
        """Create a cgroup with those above it and set its limits.

        :param mark: note that this agent made it, so that :meth:`pods` finds it.
        :raises CgroupError: it cannot be made.
        """
        ...

    async def limit(self, name: CgroupName, limits: CgroupLimits) -> None:
        """Set the limits of a cgroup that exists.

        :raises CgroupBusy: more memory is in use than it may have.
        :raises CgroupError: they cannot be set.
        """
        ...

    async def memory_usage(self, name: CgroupName) -> int:
        """Return the memory in use, in bytes.

        :raises CgroupError: it cannot be read.
        """
        ...

    async def pods(self, above: CgroupName) -> list[str]:
        """Return the UIDs of pods whose cgroups directly below *above* this agent made."""
        ...

    async def kill_below(self, name: CgroupName, part: str) -> None:
        """Kill what runs in the cgroups directly below *name* whose names contain *part*."""
        ...

    async def remove(self, name: CgroupName) -> None:
        """Kill what runs in a cgroup and remove it.

        :raises CgroupError: something in it does not end.
        """
        ...


class CgroupfsDriver:
    """Makes cgroups as files; one thread hop a call."""

    def __init__(self, files: CgroupFiles) -> None:
        self._files = files

    def find(self, path: str) -> CgroupName:
        return parse_name(path)

    async def lacks(self, name: CgroupName, controllers: Sequence[str]) -> list[str]:
        return await asyncio.to_thread(self._files.hierarchy.lacks, name, controllers)

    async def missing(self, names: Sequence[CgroupName]) -> list[CgroupName]:
        return await asyncio.to_thread(lambda: [name for name in names if not self._files.exists(name)])

    async def make(self, name: CgroupName, limits: CgroupLimits | None = None, *, mark: bool = False) -> None:
        await asyncio.to_thread(self._files.make, name, limits, mark=mark)

    async def limit(self, name: CgroupName, limits: CgroupLimits) -> None:
        await asyncio.to_thread(self._files.limit, name, limits)

    async def memory_usage(self, name: CgroupName) -> int:
        return await asyncio.to_thread(self._files.memory_usage, name)

    async def pods(self, above: CgroupName) -> list[str]:
        found = await asyncio.to_thread(self._files.children, above)
        return [uid for child in found if (uid := pod_uid(child, above, Driver.CGROUPFS))]

    async def kill_below(self, name: CgroupName, part: str) -> None:
        await asyncio.to_thread(self._files.kill_below, name, part)

    async def remove(self, name: CgroupName) -> None:
        await asyncio.to_thread(self._files.remove, name)
