"""Where the agent itself, the rest of the system and the runtime live."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from nodeagent_plugins.cgroups.files import CgroupError, CgroupFiles
from nodeagent_plugins.cgroups.names import CgroupName, cgroupfs_path
from nodeagent_plugins.cgroups.processes import move, move_all, processes_below

_log = logging.getLogger(__name__)
_PERIOD_SECONDS = 60.0
_RUNTIME_SCORE = -999


class SystemCgroups:
    """Keeps processes in the cgroups that the configuration names for them.

    spec: config.nodeagentCgroups, config.systemCgroups; flag ``--runtime-cgroups``

    :param agent: the agent's own; empty leaves it where it is.
    :param system: of every process that is in no cgroup, but for kernel threads and the first one.
    :param runtime: the container runtime's, whose processes the kernel is told to spare when memory runs out.
    :param outside: where processes are that are in no cgroup.
    """

    name = "own cgroups"

    def __init__(
        self,
        files: CgroupFiles,
        sleep: Callable[[float], Awaitable[None]],
        *,
        agent: CgroupName = (),
        system: CgroupName = (),
        runtime: CgroupName = (),
        outside: CgroupName = (),
        proc: Path = Path("/proc"),
    ) -> None:
        self._files, self._sleep, self._proc = files, sleep, proc
        self._agent, self._system, self._runtime, self._outside = agent, system, runtime, outside
        self._failing: set[str] = set()

    async def run(self) -> None:
        """Look after the processes each minute until cancelled."""
        while True:
            await asyncio.to_thread(self.keep)
            await self._sleep(_PERIOD_SECONDS)

    def keep(self) -> None:
        """Move and score what has to be; failures are logged once and tried again the next time."""
        for wanted, what, act in (
            (self._agent, "Agent cannot be moved into its cgroup", self._move_agent),
            (self._system, "System's processes cannot be moved into their cgroup", self._move_system),
            (self._runtime, "Runtime cannot be spared when memory runs out", self._score_runtime),
        ):
            if not wanted:
                continue
            try:
                act()
            except (OSError, CgroupError) as error:
                if what not in self._failing:
                    _log.warning(what, extra={"cgroup": cgroupfs_path(wanted), "err": str(error)})
                self._failing.add(what)
            else:
                self._failing.discard(what)

    def _move_agent(self) -> None:
        self._files.make(self._agent)
        for root in self._files.hierarchy.limiting_roots:
            move(os.getpid(), root.joinpath(*self._agent))

    def _move_system(self) -> None:
        self._files.make(self._system)
        for root in self._files.hierarchy.limiting_roots:
            move_all(root.joinpath(*self._outside), root.joinpath(*self._system), self._proc)

    def _score_runtime(self) -> None:
        places = self._files.hierarchy.places(self._runtime)
        if not any(place.is_dir() for place in places):
            raise CgroupError("it does not exist")
        pids: dict[int, None] = {}
        for place in places:
            pids |= processes_below(place)
        for pid in pids:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
                (self._proc / str(pid) / "oom_score_adj").write_text(str(_RUNTIME_SCORE))
