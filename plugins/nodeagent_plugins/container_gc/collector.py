"""Container garbage collector: removes dead containers with logs and termination messages, and empty sandboxes."""

from __future__ import annotations

import asyncio
import logging
import math
import os
from collections.abc import Iterable
from pathlib import Path

from nodeagent.base import tracing
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.events import EventType
from nodeagent.contracts.eviction import Reclaimed
from nodeagent.contracts.runtime import ContainerInfo, ContainerState, RuntimeContainerStatus
from nodeagent.errors import NodeAgentError, NotFound
from nodeagent_plugins.container_gc.selection import (
    PodGcState,
    Policy,
    names,
    reclaimable_containers,
    surplus_containers,
    surplus_sandboxes,
)

_log = logging.getLogger(__name__)

PERIOD_SECONDS = 60.0
_ENDED = ("Succeeded", "Failed")
_STOP_SECONDS = 2


class ContainerCollector:
    """Collects every minute; a failure is recorded as an event."""

    name = "container_gc"

    def __init__(self, context: AgentContext) -> None:
        self._context = context
        settings = context.settings
        self._policy = Policy(
            settings.maximum_dead_containers_per_container,
            settings.maximum_dead_containers,
            settings.minimum_container_ttl_duration.seconds,
        )
        self._at_work = asyncio.Lock()

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            due = self._context.clock.now() + PERIOD_SECONDS
            try:
                with tracing.span("Containers/GarbageCollect"):
                    await self._collect()
            except NodeAgentError as error:
                _log.error("Container garbage collection failed", extra={"err": str(error)})
                regarding = self._context.node_reference()
                self._context.recorder.record(regarding, EventType.WARNING, "ContainerGCFailed", str(error))
            await self._context.clock.sleep_until(due)

    async def reclaim(self, seconds: float) -> Reclaimed:
        """Remove all dead containers and sandboxes that no pod requires, within the time limit.

        :raises NodeAgentError: the runtime did not respond.
        """
        until = self._context.clock.now() + seconds
        async with self._at_work:
            fates = self._fates()
            found = reclaimable_containers(await self._context.runtime.list_containers(), fates)
            freed = await self._remove(found, until)
            await self._remove_sandboxes(fates)
        return freed

    async def _collect(self) -> None:
        async with self._at_work:
            fates = self._fates()
            now = int(self._context.clock.wall().timestamp() * 1e9)
            containers = await self._context.runtime.list_containers()
            await self._remove(surplus_containers(containers, fates, self._policy, now))
            await self._remove_sandboxes(fates)

    def _fates(self) -> dict[str, PodGcState]:
        """Return the collection state of the pods of this node."""
        pods = self._context.pods
        active = {pod.uid for pod in pods.active()}
        fates = {}
        for pod in pods.all():
            status = pods.status(pod.uid)
            ended = pod.uid not in active and status is not None and status.phase in _ENDED
            evicted = ended and status is not None and status.reason == "Evicted"
            fates[pod.uid] = PodGcState.EVICTED if evicted else PodGcState.ENDED if ended else PodGcState.LIVES
        return fates

    async def _remove(self, found: Iterable[ContainerInfo], until: float = math.inf) -> Reclaimed:
        """Remove containers and return the bytes of their logs; a failed removal does not affect the others.

        :raises NodeAgentError: the first failed removal.
        """
        freed, removed, failure = 0, [], None
        for one in found:
            if self._context.clock.now() >= until:
                break
            try:
                freed += await self._remove_one(one)
            except NodeAgentError as error:
                failure = failure or error
            else:
                removed.append(one)
        if removed:
            _log.info("Removed dead containers", extra={"containers": ", ".join(names(removed))})
        elif failure is not None:
            raise failure
        return Reclaimed(freed, names(removed))

    async def _remove_one(self, one: ContainerInfo) -> int:
        """Remove a container and its files; return the bytes of the files."""
        runtime = self._context.runtime
        try:
            status = await runtime.container_status(one.id)
        except NotFound:
            return 0
        if status.state is ContainerState.RUNNING:
            return 0  # It was started concurrently.
        if status.state is ContainerState.UNKNOWN:
            await runtime.stop_container(one.id, _STOP_SECONDS)
        await runtime.remove_container(one.id)
        directory = self._context.root_dir / "pods"
        return await asyncio.to_thread(_remove_files, directory, status)

    async def _remove_sandboxes(self, fates: dict[str, PodGcState]) -> None:
        runtime = self._context.runtime
        containers = await runtime.list_containers()
        for sandbox in surplus_sandboxes(await runtime.list_sandboxes(), containers, fates):
            await runtime.stop_sandbox(sandbox.id)  # Releases the network, even if the sandbox has exited.
            await runtime.remove_sandbox(sandbox.id)


def _remove_files(pods: Path, status: RuntimeContainerStatus) -> int:
    """Remove log, rotated logs and termination message file; housekeeping removes the links to the log."""
    freed = 0
    for path in [*_logs(status.log_path), *_messages(pods, status)]:
        try:
            size = path.lstat().st_size
            path.unlink()
        except OSError:
            continue
        freed += size
    return freed


def _logs(log_path: str) -> list[Path]:
    log = Path(log_path)
    if not log.is_absolute():  # Without a log no file belongs to the container.
        return []
    try:
        with os.scandir(log.parent) as entries:
            return [
                Path(entry.path)
                for entry in entries
                if (entry.name == log.name or entry.name.startswith(f"{log.name}."))
                and not entry.is_dir(follow_symlinks=False)
            ]
    except OSError:
        return []


def _messages(pods: Path, status: RuntimeContainerStatus) -> list[Path]:
    """Return the mounted files in ``<pods>/<uid>/containers/<name>/``."""
    expected_parent = ("containers", status.name)
    files = (Path(mount.host_path) for mount in status.mounts)
    return [
        file
        for file in files
        if file.is_relative_to(pods)
        and file.relative_to(pods).parts[1:-1] == expected_parent
        and ".." not in file.parts
    ]
