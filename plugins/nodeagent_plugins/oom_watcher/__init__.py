"""OOM watcher: report OOM-killed processes and the containers they belonged to.

A victim outside of containers is an event of the node (``SystemOOM``), otherwise of its pod. If the kernel log is not
readable, the kill counters of the pods' cgroups are polled: they contain neither the process nor kills outside of pods,
and miss a container whose cgroup is removed with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nodeagent import hookimpl
from nodeagent.base.logging import v_level
from nodeagent.contracts.background import BackgroundLoop
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.events import EventType
from nodeagent.model.pod import Pod
from nodeagent_plugins.oom_watcher.counters import cgroup_dir, count_kills, memory_root
from nodeagent_plugins.oom_watcher.kernel_log import KernelLog, OomKill

if TYPE_CHECKING:
    from nodeagent.contracts.hooks import PluginHost

_log = logging.getLogger(__name__)

POLL_SECONDS = 10.0
SYSTEM_REASON = "SystemOOM"
CONTAINER_REASON = "OOMKilled"


@hookimpl
def nodeagent_components_created(context: AgentContext, plugins: PluginHost) -> None:
    plugins.register(OomWatcher(context, KernelLog()), name="oom_watcher.loop")


class OomWatcher:
    """Watches the kernel log, or the counters of cgroups."""

    name = "OOM watcher"

    def __init__(self, context: AgentContext, log: KernelLog, *, cgroups: Path | None = None) -> None:
        self._context, self._kernel = context, log
        self._cgroups = cgroups

    @hookimpl
    def nodeagent_provide_background_loops(self) -> Sequence[BackgroundLoop]:
        return [self]

    async def run(self) -> None:
        """Report kills until cancelled."""
        try:
            await self._kernel.follow(self.report)
        except OSError as error:
            _log.warning("Failed to read kernel log, polling cgroup counters", extra={"err": str(error)})
        await self._count()

    # --- kernel log -----------------------------------------------------------------------------------------

    def report(self, kill: OomKill) -> None:
        """Record an event of the node or a pod for *kill*."""
        context = self._context
        details = {"victim": kill.process, "pid": kill.pid, "cgroup": kill.cgroup, "limit": kill.limit}
        found = self._owner(kill.cgroup)
        if found is not None:
            pod, container = found
            fields = {"pod": pod.full_name, "podUID": pod.uid, "containerName": container}
            _log.info("Process OOM-killed in container", extra=fields | details)
            why = "reached its memory limit" if kill.limit else "the node ran out of memory"
            whose = f"Container {container}" if container else "Pod"
            note = f"{whose}: process {kill.process} (pid {kill.pid}) was killed, {why}"
            context.recorder.record(pod.reference(), EventType.WARNING, CONTAINER_REASON, note)
        elif kill.cgroup == "/" or not kill.limit:
            _log.log(v_level(1), "Got sys oom event", extra={"event": details})
            note = f"System OOM encountered, victim process: {kill.process}, pid: {kill.pid}"
            context.recorder.record(context.node_reference(), EventType.WARNING, SYSTEM_REASON, note)

    def _owner(self, cgroup: str) -> tuple[Pod, str] | None:
        """Return the pod of a cgroup and the name of the container, which is empty for the pod's cgroup."""
        for pod in self._context.pods.active():
            observed = self._context.pods.observed(pod.uid)
            for container in observed.containers if observed is not None else ():
                if container.id in cgroup:
                    return pod, container.name
            if pod.uid in cgroup or pod.uid.replace("-", "_") in cgroup:
                return pod, ""
        return None

    # --- counters -------------------------------------------------------------------------------------------

    async def _count(self) -> None:
        root = self._cgroups if self._cgroups is not None else memory_root()
        before: dict[str, int] | None = None
        while True:
            pods = self._context.pods.active()
            parents = [parent for pod in pods if (parent := self._context.cgroups.parent_of(pod))]
            now = await asyncio.to_thread(_count_kills, root, parents)
            for cgroup, kills in now.items():
                if before is not None and kills > before.get(cgroup, 0):
                    self._report_counted(cgroup, kills - before.get(cgroup, 0))
            before = now
            await self._context.clock.sleep(POLL_SECONDS)

    def _report_counted(self, cgroup: str, kills: int) -> None:
        found = self._owner(cgroup)
        if found is not None:
            pod, container = found
            whose = f"Container {container}" if container else "Pod"
            note = f"{whose}: {kills} processes were OOM-killed"
            self._context.recorder.record(pod.reference(), EventType.WARNING, CONTAINER_REASON, note)


def _count_kills(root: Path, parents: Sequence[str]) -> dict[str, int]:
    kills: dict[str, int] = {}
    for parent in parents:
        kills.update(count_kills(cgroup_dir(root, parent)))
    return kills
