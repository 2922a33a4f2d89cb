"""cgroupfs driver: the agent manages cgroups through the cgroup file system."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from nodeagent_plugins.cgroups.files import CgroupFiles
from nodeagent_plugins.cgroups.limits import CgroupLimits
from nodeagent_plugins.cgroups.names import CgroupName, Driver, parse_name, pod_uid


class CgroupDriver(Protocol):
    """Creates, limits and removes cgroups. Every call is idempotent."""

    def find(self, path: str) -> CgroupName:
        """Return the cgroup with the name *path* from the configuration."""
        ...

    def paths(self, name: CgroupName) -> list[Path]:
        """Return the directories of a cgroup."""
        ...

    async def lacks(self, name: CgroupName, controllers: Sequence[str]) -> list[str]:
        """Return the *controllers* for which the cgroup does not exist."""
        ...

    async def missing(self, names: Sequence[CgroupName]) -> list[CgroupName]:
        """Return those of *names* that do not exist, or not for every controller."""
        ...

    async def make(self, name: CgroupName, limits: CgroupLimits | None = None, *, mark: bool = False) -> None:
        """Create a cgroup and its ancestors, and set its limits.

        :param mark: mark the cgroup as created by this agent, so that :meth:`pods` returns it.
        :raises CgroupError: the cgroup cannot be created.
        """
        ...

    async def limit(self, name: CgroupName, limits: CgroupLimits) -> None:
        """Set the limits of an existing cgroup.

        :raises CgroupBusy: the memory in use exceeds the limit.
        :raises CgroupError: the limits cannot be set.
        """
        ...

    async def memory_usage(self, name: CgroupName) -> int:
        """Return the memory usage in bytes.

        :raises CgroupError: the usage cannot be read.
        """
        ...

    async def pods(self, above: CgroupName) -> list[str]:
        """Return the UIDs of the pods whose cgroups this agent created directly below *above*."""
        ...

    async def kill_below(self, name: CgroupName, part: str) -> None:
        """Kill the processes in the cgroups directly below *name* whose names contain *part*."""
        ...

    async def remove(self, name: CgroupName) -> None:
        """Kill the processes in a cgroup and remove it.

        :raises CgroupError: a process in it does not exit.
        """
        ...


class CgroupfsDriver:
    """Manages cgroups as directories; each call uses a worker thread."""

    def __init__(self, files: CgroupFiles) -> None:
        self._files = files

    def find(self, path: str) -> CgroupName:
        return parse_name(path)

    def paths(self, name: CgroupName) -> list[Path]:
        return self._files.hierarchy.paths(name)

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
