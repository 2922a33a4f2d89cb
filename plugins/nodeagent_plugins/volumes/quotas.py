"""Project IDs of emptyDir volumes, by which the kernel accounts their usage.

spec: gate.LocalStorageCapacityIsolationFSQuotaMonitoring
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from nodeagent.base.logging import v_level
from nodeagent.base.project_quota import own_project, project_usage, set_project
from nodeagent.base.release import Release
from nodeagent.contracts.context import CgroupsContext
from nodeagent.model.pod import Pod

_log = logging.getLogger(__name__)

GATE = "LocalStorageCapacityIsolationFSQuotaMonitoring"
FIRST_PROJECT = 1_048_577
"""First project ID of volumes, as the kubelet's."""
USER_NAMESPACE_REQUIRED = Release(1, 31)
"""First release that monitors only pods with a user namespace: other containers can change their project ID."""


class VolumeProjects:
    """Assigns unused project IDs to the directories of volumes; a directory keeps its project ID across restarts.

    :param reserved: the administrator's list of project IDs, in the format of ``projects(5)``.
    """

    def __init__(self, context: CgroupsContext, reserved: Path = Path("/etc/projects")) -> None:
        self._enabled = context.gates.enabled(GATE)
        self._for_user_namespaces = context.release.release >= USER_NAMESPACE_REQUIRED
        self._reserved = reserved
        self._candidates = count(FIRST_PROJECT)
        self._lock = threading.Lock()

    def assign(self, pod: Pod, directory: Path) -> bool:
        """Assign a project ID to the empty *directory* of a volume; return whether its usage is accounted. Blocks.

        It is not if the gate is disabled, the pod has no user namespace, or the file system has no project quotas.
        """
        if not self._enabled or (self._for_user_namespaces and pod.spec.host_users is not False):
            return False
        try:
            with self._lock:
                if not own_project(directory):
                    set_project(directory, next(self._unused(directory)))
        except OSError as error:
            fields = {"pod": pod.full_name, "podUID": pod.uid, "path": str(directory), "err": str(error)}
            _log.log(v_level(3), "Set quota failed", extra=fields)
            return False
        return True

    def _unused(self, directory: Path) -> Iterator[int]:
        """Yield project IDs that neither the administrator nor a file on the file system uses."""
        reserved = self._read_reserved()
        for project in self._candidates:
            if project not in reserved and not project_usage(directory, project).inodes:
                yield project

    def _read_reserved(self) -> frozenset[int]:
        try:
            lines = self._reserved.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return frozenset()
        numbers = (line.partition(":")[0].strip() for line in lines)
        return frozenset(int(number) for number in numbers if number.isascii() and number.isdigit())
