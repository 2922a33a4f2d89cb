"""Rotation of running containers' logs (spec: config.containerLogMaxSize, .containerLogMaxFiles)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path

from nodeagent.base.aio.shared_times import until_shared
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.runtime import ContainerState
from nodeagent.errors import NodeAgentError
from nodeagent_plugins.log_rotation import files
from nodeagent_plugins.log_rotation.compress import Compressor

_log = logging.getLogger(__name__)


class LogRotator:
    """Rotates logs that have reached *largest* bytes, and keeps *count* files of each, including the current one.

    The log is renamed and the runtime reopens it. The file renamed last is not compressed, because the runtime and
    readers may still use it; older ones are. A container can write any amount between two checks, so a file can be
    larger than *largest*.

    :param workers: number of logs that are rotated at the same time.
    """

    name = "log_rotation"

    def __init__(
        self, context: AgentContext, largest: int, count: int, period_seconds: float, workers: int = 1
    ) -> None:
        self._context, self._largest, self._count, self._period = context, largest, count, period_seconds
        self._workers = asyncio.Semaphore(workers)
        self._compressor = Compressor()
        self._failing: set[str] = set()

    async def run(self) -> None:
        """Run until cancelled; a failure is logged once and retried."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._compressor.run(), name="log_rotation/compress")
            group.create_task(self._rotate(), name="log_rotation/rotate")

    async def _rotate(self) -> None:
        while True:
            now = self._context.clock.now()
            due = now + until_shared(now, self._period)
            logs = self._logs()
            self._failing &= logs.keys()
            sizes = await asyncio.to_thread(_sizes, logs) if logs else {}
            async with asyncio.TaskGroup() as group:
                for container_id, size in sizes.items():
                    if container_id in self._failing or not isinstance(size, int) or size >= self._largest:
                        group.create_task(self._check_log(container_id, Path(logs[container_id]), size))
            await self._context.clock.sleep_until(due)

    def _logs(self) -> dict[str, str]:
        """Return the paths of the logs of running containers by container ID."""
        pods = self._context.pods
        observed = (pods.observed(pod.uid) for pod in pods.all())
        return {
            container.id: container.log_path
            for pod in observed
            if pod is not None
            for container in pod.containers
            if container.state is ContainerState.RUNNING and container.log_path
        }

    async def _check_log(self, container_id: str, log: Path, size: int | OSError | None) -> None:
        async with self._workers:
            await self._check_one(container_id, log, size)

    async def _check_one(self, container_id: str, log: Path, size: int | OSError | None) -> None:
        try:
            if isinstance(size, OSError):
                raise size
            if size is None:  # Missing if the agent was killed between rename and reopen.
                await self._context.runtime.reopen_log(container_id)
            elif size >= self._largest and size:
                await self._rotate_one(container_id, log)
        except (NodeAgentError, OSError) as error:
            self._failed(container_id, error)
        else:
            self._recovered(container_id)

    async def _rotate_one(self, container_id: str, log: Path) -> None:
        names = await asyncio.to_thread(files.rotated_names, log)
        decided = files.sort_rotated(names, self._count - 2, self._compressor.unfinished)
        gone = [*decided.useless, *decided.excess]
        await self._compressor.drop(log.with_name(name) for name in gone)
        await asyncio.to_thread(files.remove, log.parent, gone)
        rotated = await asyncio.to_thread(files.set_aside, log, self._context.clock.wall())
        if rotated is None:
            return
        try:
            await self._context.runtime.reopen_log(container_id)
        except BaseException:
            files.put_back(rotated, log)  # The runtime still writes to it; also after a cancellation.
            raise
        if self._count <= 2:
            return
        plain = (name for name in decided.kept if not name.endswith(files.COMPRESSED))
        self._compressor.request(log.with_name(name) for name in plain)

    def _failed(self, container_id: str, error: Exception) -> None:
        if container_id not in self._failing:
            _log.error("Failed to rotate log for container", extra={"containerID": container_id, "err": str(error)})
        self._failing.add(container_id)

    def _recovered(self, container_id: str) -> None:
        self._failing.discard(container_id)


def _sizes(logs: Mapping[str, str]) -> dict[str, int | OSError | None]:
    found: dict[str, int | OSError | None] = {}
    for container_id, log in logs.items():
        try:
            found[container_id] = files.size_of(log)
        except OSError as error:
            found[container_id] = error
    return found
