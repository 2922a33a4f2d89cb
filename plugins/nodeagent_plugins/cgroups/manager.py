"""What keeps the cgroups of pods, by driver."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from nodeagent_plugins.cgroups import names, resources
from nodeagent_plugins.cgroups.formulas import MIN_SHARES, cpu_shares
from nodeagent_plugins.cgroups.hierarchy import CgroupFiles
from nodeagent_plugins.cgroups.names import CgroupName, Driver
from nodeagent_plugins.cgroups.resources import Policy

from nodeagent.contracts.runtime import LinuxResources
from nodeagent.model.pod import Container, Pod
from nodeagent.model.qos import QosClass, qos_class
from nodeagent.model.resources import CPU, pod_requests

_log = logging.getLogger(__name__)


class PlainCgroups:
    """Makes nothing: pods live below *root*, or where the runtime puts them when that is empty.

    A :class:`~nodeagent.contracts.cgroups.CgroupManager` and the base of the others, which share its limits.
    """

    def __init__(self, policy: Policy, driver: Driver, root: CgroupName) -> None:
        self._policy, self._driver, self._root = policy, driver, root

    def parent_of(self, pod: Pod) -> str:
        return self._spelled(self._root) if self._root else ""

    async def ensure_pod(self, pod: Pod) -> None:
        return None

    async def remove_pod(self, pod_uid: str) -> None:
        return None

    async def pods(self) -> Sequence[str]:
        return ()

    def container_resources(self, pod: Pod, container: Container) -> LinuxResources:
        return resources.container_resources(pod, container, self._policy)

    def pod_resources(self, pod: Pod) -> LinuxResources:
        return resources.pod_resources(pod, self._policy)

    def _spelled(self, name: CgroupName) -> str:
        return names.slice_name(name) if self._driver is Driver.SYSTEMD else names.cgroupfs_path(name)


class SliceCgroups(PlainCgroups):
    """Names the slices of pods; the runtime has systemd make them, and systemd removes empty ones."""

    def __init__(self, policy: Policy, root: CgroupName) -> None:
        super().__init__(policy, Driver.SYSTEMD, root)
        _log.info("Slices of pods are made by the runtime; limits are set on containers", extra={"driver": "systemd"})

    def parent_of(self, pod: Pod) -> str:
        return self._spelled(names.pod_name(self._root, qos_class(pod), pod.uid))


class FileCgroups(PlainCgroups):
    """Makes the cgroups of QoS classes and pods in the cgroup file system; one thread hop a pod and call.

    :param pids_limit: most processes in a pod (spec: config.podPidsLimit); 0 and less is no limit.
    """

    def __init__(self, policy: Policy, root: CgroupName, files: CgroupFiles, *, pids_limit: int = 0) -> None:
        super().__init__(policy, Driver.CGROUPFS, root)
        self._files, self._pids_limit = files, pids_limit
        self._made: dict[str, tuple[QosClass, LinuxResources]] = {}
        self._burstable_milli: dict[str, int] = {}
        self._class_shares: dict[QosClass, int] = {}
        self._turn = asyncio.Lock()  # classes are shared: their cgroups and weights change one at a time

    def parent_of(self, pod: Pod) -> str:
        return self._spelled(names.pod_name(self._root, qos_class(pod), pod.uid))

    async def ensure_pod(self, pod: Pod) -> None:
        """Create the pod's cgroup with its limits; cheap when they are in force already.

        :raises CgroupError: the kernel refuses.
        """
        wanted = (qos_class(pod), self.pod_resources(pod))
        if self._made.get(pod.uid) == wanted:
            return
        async with self._turn:
            if wanted[0] is QosClass.BURSTABLE:
                requested = pod_requests(pod).get(CPU)
                self._burstable_milli[pod.uid] = requested.milli_value() if requested else 0
            await asyncio.to_thread(self._make, pod.uid, *wanted)
            self._made[pod.uid] = wanted

    async def remove_pod(self, pod_uid: str) -> None:
        """Kill what is left in the pod's cgroup and remove it.

        :raises CgroupError: something in it does not end.
        """
        known = self._made.get(pod_uid)
        await asyncio.to_thread(self._remove, pod_uid, [known[0]] if known else list(QosClass))
        self._made.pop(pod_uid, None)
        self._burstable_milli.pop(pod_uid, None)

    async def pods(self) -> Sequence[str]:
        """Return the UIDs of pods whose cgroups this agent made, in this run or an earlier one."""
        return await asyncio.to_thread(self._find)

    def _make(self, pod_uid: str, qos: QosClass, limits: LinuxResources) -> None:
        self._weigh(qos)
        name = names.pod_name(self._root, qos, pod_uid)
        self._files.make(name, limits, self._pids_limit)
        self._files.mark(name)

    def _weigh(self, qos: QosClass) -> None:
        """Make the class's cgroup; BestEffort weighs next to nothing, Burstable what its pods ask for in sum."""
        name = names.class_name(self._root, qos)
        if qos not in self._class_shares:
            self._files.make(name)
            self._class_shares[qos] = 0
        if qos is QosClass.GUARANTEED:
            return
        burstable = qos is QosClass.BURSTABLE
        shares = cpu_shares(sum(self._burstable_milli.values())) if burstable else MIN_SHARES
        if self._class_shares[qos] != shares:
            self._files.set_shares(name, shares)
            self._class_shares[qos] = shares

    def _remove(self, pod_uid: str, classes: Sequence[QosClass]) -> None:
        for qos in classes:
            self._files.remove(names.pod_name(self._root, qos, pod_uid))

    def _find(self) -> list[str]:
        found = set(self._made)
        for qos in QosClass:
            children = self._files.children(names.class_name(self._root, qos))
            found.update(
                child.removeprefix(names.POD_PREFIX) for child in children if child.startswith(names.POD_PREFIX)
            )
        return sorted(found)
