"""Cgroups of the agent, the system processes and the container runtime."""

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
    """Moves processes into the cgroups that are configured for them.

    spec: config.nodeagentCgroups, config.systemCgroups; flag ``--runtime-cgroups``

    :param agent: cgroup of the agent; empty leaves the agent in its cgroup.
    :param system: cgroup for all processes that are in no cgroup, except kernel threads and PID 1.
    :param runtime: cgroup of the container runtime, whose processes get a low OOM score.
    :param outside: the cgroup of processes that are in no other cgroup.
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
        """Apply every minute until cancelled."""
        while True:
            await asyncio.to_thread(self.keep)
            await self._sleep(_PERIOD_SECONDS)

    def keep(self) -> None:
        """Move the processes and set OOM scores; failures are logged once and retried by the next call."""
        for cgroup, failure, apply in (
            (self._agent, "Failed to move agent into its cgroup", self._move_agent),
            (self._system, "Failed to move system processes into their cgroup", self._move_system),
            (self._runtime, "Failed to set OOM score of container runtime", self._score_runtime),
        ):
            if not cgroup:
                continue
            try:
                apply()
            except (OSError, CgroupError) as error:
                if failure not in self._failing:
                    _log.warning(failure, extra={"cgroup": cgroupfs_path(cgroup), "err": str(error)})  # wording: ok
                self._failing.add(failure)
            else:
                self._failing.discard(failure)

    def _move_agent(self) -> None:
        self._files.make(self._agent)
        for root in self._files.hierarchy.limiting_roots:
            move(os.getpid(), root.joinpath(*self._agent))

    def _move_system(self) -> None:
        self._files.make(self._system)
        for root in self._files.hierarchy.limiting_roots:
            move_all(root.joinpath(*self._outside), root.joinpath(*self._system), self._proc)

    def _score_runtime(self) -> None:
        paths = self._files.hierarchy.paths(self._runtime)
        if not any(path.is_dir() for path in paths):
            raise CgroupError("the cgroup does not exist")
        pids: dict[int, None] = {}
        for path in paths:
            pids |= processes_below(path)
        for pid in pids:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # The process has exited.
                (self._proc / str(pid) / "oom_score_adj").write_text(str(_RUNTIME_SCORE))
