"""Cleanup of pods: dead containers, sandboxes, logs and directories."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from nodeagent.base.logging import v_level
from nodeagent.contracts.context import StatsContext
from nodeagent.contracts.runtime import ContainerState, RuntimeContainerStatus, RuntimePod
from nodeagent.errors import NodeAgentError, RuntimeFailure, RuntimeUnavailable
from nodeagent_plugins.pod_sync import disk
from nodeagent_plugins.pod_sync.labels import ANNOTATION_SANDBOX
from nodeagent_plugins.pod_sync.metrics import CLEANED_ORPHANS, ORPHANS_LEFT
from nodeagent_plugins.pod_sync.paths import PodPaths, pod_logs_directory
from nodeagent_plugins.pod_sync.step import Step
from nodeagent_plugins.pod_sync.subpaths import release_subpaths
from nodeagent_plugins.pod_sync.user_namespaces import PodUserNamespaces

_log = logging.getLogger(__name__)
_DEAD = (ContainerState.EXITED, ContainerState.CREATED)


class PodCleaner:
    """Removes resources of running, terminated and deleted pods."""

    def __init__(self, context: StatsContext, log_root: Path, user_namespaces: PodUserNamespaces) -> None:
        self._user_namespaces = user_namespaces
        self._context, self._log_root = context, log_root
        self._pod_logs = pod_logs_directory(context.config, log_root)

    async def prune(self, step: Step) -> None:
        """Remove dead containers except the latest of each name, and empty sandboxes.

        Failures are retried in the next step and do not fail this one.
        """
        settings = self._context.settings
        keep = max(settings.maximum_dead_containers_per_container, 1)
        age = int(settings.minimum_container_ttl_duration.seconds * 1e9)
        now = int(self._context.clock.wall().timestamp() * 1e9) if age else 0
        surplus = [c for c in surplus_containers(step.observed, keep) if now - c.created_at >= age or not age]
        removed = {status.id for status in surplus}
        try:
            for status in surplus:
                await self.remove_container(step.paths, status)
            for sandbox_id in empty_sandboxes(step.observed, removed):
                await self._context.runtime.stop_sandbox(sandbox_id)
                await self._context.runtime.remove_sandbox(sandbox_id)
                step.memory.stopped_sandboxes.discard(sandbox_id)
                step.memory.sandbox_configs.pop(sandbox_id, None)
        except NodeAgentError as error:
            _log.error("Failed to remove container", extra={"pod": step.pod.full_name, "err": error})

    async def release(self, uid: str, paths: PodPaths) -> None:
        """Release the volumes of a terminated pod.

        :raises VolumeError: a volume is still in use.
        """
        await asyncio.to_thread(release_subpaths, paths.subpaths)
        await self._context.volumes.release(uid)

    async def remove(self, paths: PodPaths, observed: RuntimePod, stopped: Collection[str] = ()) -> None:
        """Remove all resources of a pod that is no longer desired.

        :param stopped: sandboxes that are already stopped.
        :raises NodeAgentError: a resource cannot be removed now.
        """
        runtime = self._context.runtime
        sandboxes = {sandbox.id for sandbox in observed.sandboxes}
        for status in observed.containers:
            if (
                status.annotations.get(ANNOTATION_SANDBOX) not in sandboxes
            ):  # The others are removed with their sandbox.
                await runtime.remove_container(status.id)
        for sandbox in observed.sandboxes:
            if sandbox.ready or sandbox.id not in stopped:
                await runtime.stop_sandbox(sandbox.id)  # Releases the network, even if the sandbox has exited.
            await runtime.remove_sandbox(sandbox.id)
        await self._remove_directories(paths, [(status.name, status.id) for status in observed.containers])

    async def remove_orphans(self, is_known: Callable[[str], bool]) -> None:
        """Remove directories, volumes and cgroups of pods that are not known; failures are logged.

        :param is_known: returns whether a pod exists now. A pod is known before its first directory, so what was found
            and is not known is never that of a new pod.
        """
        context = self._context
        on_disk = await asyncio.to_thread(disk.directories, context.root_dir / "pods")
        orphans = [uid for uid in sorted({*on_disk, *context.volumes.pods_with_volumes()}) if not is_known(uid)]
        # Together, because a volume in use delays the release of its pod.
        removed = await asyncio.gather(*map(self._remove_orphan, orphans))
        left = removed.count(False)
        CLEANED_ORPHANS.set(len(orphans))
        ORPHANS_LEFT.set(left)
        try:
            for uid in set(await context.cgroups.pods()):
                if not is_known(uid):
                    await context.cgroups.remove_pod(uid)
        except NodeAgentError as error:
            _log.error("Failed to remove orphaned cgroup", extra={"err": error})
        logs = [name for name in await asyncio.to_thread(disk.directories, self._pod_logs) if name.count("_") == 2]
        orphaned = [name for name in logs if not is_known(name.rpartition("_")[2])]
        await asyncio.to_thread(self._remove_orphaned_logs, orphaned)

    async def remove_container(
        self, paths: PodPaths, status: RuntimeContainerStatus, *, keep_log: bool = False
    ) -> None:
        """Remove a dead container with its log and termination message; idempotent.

        An interrupted start can leave a process that the runtime has lost and that blocks the removal: the process is
        killed, and the removal succeeds in the next attempt.
        """
        try:
            await self._context.runtime.remove_container(status.id)
        except RuntimeUnavailable:
            raise
        except RuntimeFailure:
            await self._context.cgroups.kill_container(paths.uid, status.id)
            raise
        await asyncio.to_thread(_remove_files, paths, status, keep_log=keep_log)

    async def reset(self, paths: PodPaths, status: RuntimeContainerStatus) -> None:
        """Remove a container that is restarted with all others; the log of a run is kept until the pod is removed."""
        if status.start_interrupted:
            await self.discard(paths, status)
        else:
            await self.remove_container(paths, status, keep_log=True)

    async def discard(self, paths: PodPaths, status: RuntimeContainerStatus) -> None:
        """Remove a container that was never started; its log first, because a remaining log counts as a run."""
        await asyncio.to_thread(_remove_files, paths, status)
        await self.remove_container(paths, status)

    async def _remove_orphan(self, uid: str) -> bool:
        """Remove an orphaned pod; return false if a part of it remains, which is logged."""
        paths = PodPaths(self._context.pod_dir(uid), self._log_root, self._pod_logs, "", "", uid)
        _log.log(v_level(3), "Orphaned pod found, removing", extra={"podUID": uid})
        try:
            await self.release(uid, paths)
            await self._user_namespaces.release(uid)
            stuck = await asyncio.to_thread(disk.remove_pod_directory, paths.root)
        except NodeAgentError as error:
            problem = f"orphaned pod {uid!r} found, but {error}"
            _log.error("Failed cleaning up orphaned pod directories", extra={"podUID": uid, "err": problem})
            return False
        if stuck:
            problem = f"orphaned pod {uid!r} found, but its directory contains unexpected files"
            fields = {"podUID": uid, "err": problem, "files": stuck[:5]}
            _log.error("Failed cleaning up orphaned pod directories", extra=fields)
        return not stuck

    async def _remove_directories(self, paths: PodPaths, containers: list[tuple[str, str]]) -> None:
        await self._user_namespaces.release(paths.uid)

        def remove() -> list[str]:
            disk.remove_log_directory(paths.logs)
            for name, container_id in containers:
                paths.legacy_link(name, container_id).unlink(missing_ok=True)
            return disk.remove_pod_directory(paths.root)

        stuck = await asyncio.to_thread(remove)
        if stuck:
            _log.warning(
                "Unexpected files in directory of removed pod", extra={"podUID": paths.uid, "files": stuck[:5]}
            )

    def _remove_orphaned_logs(self, names: Iterable[str]) -> None:
        for name in names:
            directory = self._pod_logs / name
            if not disk.belongs_to_other_agent(directory, self._context.root_dir):
                disk.remove_log_directory(directory)
        disk.remove_dead_links(self._log_root)


def surplus_containers(observed: RuntimePod, keep: int = 1) -> list[RuntimeContainerStatus]:
    """Return the dead containers except the latest *keep* of each name."""
    dead: Counter[str] = Counter()
    newest: set[str] = set()
    surplus = []
    for status in observed.containers:
        is_newest = status.name not in newest
        newest.add(status.name)
        if status.state not in _DEAD:
            continue
        if status.state is ContainerState.CREATED and is_newest:
            continue  # It is about to be started.
        dead[status.name] += 1
        if dead[status.name] > keep:
            surplus.append(status)
    return surplus


def empty_sandboxes(observed: RuntimePod, removed: Collection[str] = ()) -> list[str]:
    """Return older sandboxes that are not ready and have no containers except *removed*."""
    used = set()
    for status in observed.containers:
        if status.id in removed:
            continue
        owner = status.annotations.get(ANNOTATION_SANDBOX)
        if owner is None:
            return []  # Created by another agent: its sandbox is unknown.
        used.add(owner)
    return [s.id for s in observed.sandboxes[1:] if not s.ready and s.id not in used]


def _remove_files(paths: PodPaths, status: RuntimeContainerStatus, *, keep_log: bool = False) -> None:
    if not keep_log:
        disk.remove_log(paths, status.name, status.attempt, status.id)
    disk.remove_messages(paths.messages(status.name), [mount.host_path for mount in status.mounts])
