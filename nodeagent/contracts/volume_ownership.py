"""Group ownership of volumes (``fsGroup``), with events while it takes long."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nodeagent.base.mounts.ownership import apply_fs_group
from nodeagent.contracts.events import EventType
from nodeagent.contracts.storage_operations import APPLY_ACCESS_CONTROL, observe_operation
from nodeagent.model.pod import Pod

if TYPE_CHECKING:
    from nodeagent.contracts.context import CgroupsContext

FIRST_SECONDS, REPEAT_SECONDS = 30.0, 60.0
"""Delay of the first event about a change of the group, and of each further one."""
_REASON = "VolumePermissionChangeInProgress"
_ADVICE = (
    "is taking longer than expected, consider using OnRootMismatch - https://kubernetes.io/docs/tasks/"
    "configure-pod-container/security-context/"
    "#configure-volume-permission-and-ownership-change-policy-for-pods"
)
_log = logging.getLogger(__name__)

Run = Callable[[Callable[[], None]], Awaitable[None]]
"""Runs blocking work in a thread."""


async def change_group(
    context: CgroupsContext, pod: Pod, directory: Path, group: int, *, run: Run, plugin: str, migrated: bool = False
) -> None:
    """Change the group of a volume as the pod's ``fsGroupChangePolicy`` requires, and grant the group access.

    After 30 seconds, and every minute since, an event of the pod contains the progress.

    :param context: the context of the kind.
    :param pod: the pod of the volume.
    :param directory: the root of the volume.
    :param group: ID of the group.
    :param run: runs the blocking work.
    :param plugin: the plugin of the volume, for metrics.
    :param migrated: the volume has an in-tree source that was translated to its CSI driver.
    :raises OSError: a directory cannot be read.
    """
    security = pod.spec.security_context
    only_on_mismatch = security is not None and security.fs_group_change_policy == "OnRootMismatch"
    progress = _Progress(context, pod, directory)
    reports = asyncio.create_task(progress.report(), name=f"report fsGroup of {directory.name}")
    started, failed = context.clock.now(), True
    try:
        below = context.root_dir if directory.is_relative_to(context.root_dir) else None
        walk = partial(apply_fs_group, only_on_mismatch=only_on_mismatch, progress=progress.update, below=below)
        await run(partial(walk, directory, group))
        failed = False
    finally:
        reports.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reports
        seconds = context.clock.now() - started
        observe_operation(plugin, APPLY_ACCESS_CONTROL, seconds, failed=failed, migrated=migrated)


class _Progress:
    """Number of processed files, and the events with it."""

    def __init__(self, context: CgroupsContext, pod: Pod, directory: Path) -> None:
        self._context, self._pod = context, pod
        text = str(directory)
        self._name = text[max(text.find(pod.uid), 0) :]  # Without the agent's root directory.
        self._files = 0

    def update(self, files: int) -> None:
        """Store the number of processed files; called in the thread of the walk."""
        self._files = files

    async def report(self) -> None:
        """Record events until cancelled."""
        await self._context.clock.sleep(FIRST_SECONDS)
        self._record(f"Setting volume ownership for {self._name} {_ADVICE}")
        while True:
            await self._context.clock.sleep(REPEAT_SECONDS)
            self._record(f"Setting volume ownership for {self._name}, processed {self._files} files.")

    def _record(self, note: str) -> None:
        fields = {"pod": self._pod.full_name, "volume": self._name, "files": self._files}
        _log.warning("Setting volume ownership is taking longer than expected", extra=fields)
        self._context.recorder.record(self._pod.reference(), EventType.WARNING, _REASON, note)
