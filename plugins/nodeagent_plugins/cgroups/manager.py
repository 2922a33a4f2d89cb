"""Cgroup managers: cgroups of pods and QoS classes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from nodeagent.base.metrics import Histogram
from nodeagent.contracts.cgroups import PodLimit, ProcessLimits
from nodeagent.contracts.runtime import LinuxResources
from nodeagent.errors import ConfigError, NodeAgentError, Problem
from nodeagent.model.pod import Container, Pod, PodSpec
from nodeagent.model.qos import QosClass, qos_class
from nodeagent_plugins.cgroups import names, resources
from nodeagent_plugins.cgroups.cgroupfs_driver import CgroupDriver
from nodeagent_plugins.cgroups.enforcement import Enforcement
from nodeagent_plugins.cgroups.files import CgroupBusy
from nodeagent_plugins.cgroups.formulas import DEFAULT_PERIOD_US
from nodeagent_plugins.cgroups.hierarchy import REQUIRED_CONTROLLERS
from nodeagent_plugins.cgroups.limits import CgroupLimits
from nodeagent_plugins.cgroups.memory_metrics import expose_reservation
from nodeagent_plugins.cgroups.names import CgroupName, Driver
from nodeagent_plugins.cgroups.qos import ClassSums, class_limits
from nodeagent_plugins.cgroups.resources import Policy

_log = logging.getLogger(__name__)
_PERIOD_SECONDS = 60.0
_DURATIONS = Histogram(
    "cgroup_manager_duration_seconds",
    "Duration in seconds for cgroup manager operations. Broken down by method.",
    ("operation_type",),
)


class _PodLimits(NamedTuple):
    """Limits of a pod and all that they were computed from."""

    spec: PodSpec
    qos: QosClass
    policy: Policy
    limits: CgroupLimits


class NoopCgroupManager:
    """Creates no cgroups: pods run below *root*, or where the runtime creates them if *root* is empty.

    Implements :class:`~nodeagent.contracts.cgroups.CgroupManager`; :class:`QosCgroupManager` extends it.

    :param query_driver: returns the cgroup driver of the runtime, or an empty string if the runtime does not report it.
    """

    def __init__(
        self, policy: Policy, driver: Driver, root: CgroupName, query_driver: Callable[[], Awaitable[str]] | None = None
    ) -> None:
        self._policy, self._driver, self._root, self._query_driver = policy, driver, root, query_driver
        self._exclusive: Callable[[str, str], bool] = lambda _uid, _container: False

    @property
    def driver(self) -> str:
        return self._driver

    async def start(self) -> None:
        reported = await self._query_driver() if self._query_driver is not None else ""
        if reported and reported != self._driver:
            _log.info("Using cgroup driver setting received from the CRI runtime", extra={"cgroupDriver": reported})
            self._driver = Driver(reported)

    def parent_of(self, pod: Pod) -> str:
        return self._spelled(self._root) if self._root else ""

    async def exists(self, pod: Pod) -> bool:
        return True

    async def ensure_pod(self, pod: Pod) -> None:
        return None

    async def limit_pod(self, pod: Pod, limit: PodLimit) -> None:
        return None

    async def remove_pod(self, pod_uid: str) -> None:
        return None

    async def kill_container(self, pod_uid: str, container_id: str) -> None:
        return None

    async def pods(self) -> Sequence[str]:
        return ()

    def exempt_from_quota(self, exclusive: Callable[[str, str], bool]) -> None:
        self._exclusive = exclusive

    def container_resources(self, pod: Pod, container: Container) -> LinuxResources:
        return resources.container_resources(pod, container, self._policy_for(pod.uid, container))

    def pod_resources(self, pod: Pod) -> LinuxResources:
        return resources.pod_resources(
            pod, self._policy_for(pod.uid, *(pod.spec.init_containers or ()), *pod.spec.containers)
        )

    def _policy_for(self, uid: str, *containers: Container) -> Policy:
        """Return the policy without CPU quota if one of *containers* has exclusive CPUs."""
        exempt = any(self._exclusive(uid, container.name) for container in containers)
        return replace(self._policy, quota=False) if exempt else self._policy

    def _spelled(self, name: CgroupName) -> str:
        return names.slice_name(name) if self._driver is Driver.SYSTEMD else names.cgroupfs_path(name)


class QosCgroupManager(NoopCgroupManager):
    """Manages a tree of cgroups: one for all pods, one per QoS class in it, and one per pod in those.

    spec: config.cgroupsPerQOS, config.cgroupRoot, config.podPidsLimit, config.qosReserved

    :param drive: creates the driver to use.
    :param active: returns the admitted pods that have not terminated.
    :param memory_percent: percentage of the memory requested by a class that lower classes cannot use.
    """

    def __init__(
        self,
        policy: Policy,
        driver: Driver,
        root: CgroupName,
        drive: Callable[[Driver], CgroupDriver],
        enforcement: Enforcement,
        active: Callable[[], Sequence[Pod]],
        *,
        query_driver: Callable[[], Awaitable[str]] | None = None,
        memory_percent: int | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(policy, driver, root, query_driver)
        self._drive, self._enforcement, self._active = drive, enforcement, active
        self._memory_percent, self._now = memory_percent, now
        self._used: CgroupDriver | None = None
        self._sums = ClassSums()
        self._computed: dict[str, _PodLimits] = {}
        self._made: dict[str, tuple[QosClass, CgroupLimits]] = {}
        self._classes: dict[QosClass, CgroupLimits] = {}
        self._turn = asyncio.Lock()  # Serializes changes of the classes' cgroups, which pods share.

    async def start(self) -> None:
        """Create the tree or adopt an existing one, and enforce the limits of pods and reserved cgroups.

        :raises ConfigError: a controller, systemd or a required cgroup is missing.
        :raises CgroupError: the kernel rejects an operation.
        """
        await super().start()
        driver = self._cgroups()
        missing = await driver.lacks(self._root, REQUIRED_CONTROLLERS)
        if missing:
            rule = f"must exist; it is missing for {', '.join(missing)}"
            raise ConfigError([Problem("configuration", "cgroupRoot", names.cgroupfs_path(self._root), rule)])
        await self._enforcement.enforce_reserved_limits(driver)
        async with self._turn:
            await driver.make(names.class_name(self._root, QosClass.GUARANTEED))
        await self.update()

    async def update(self) -> None:
        """Reapply the limits of the classes, retry that of all pods if it failed, and detect lost pod cgroups.

        :raises CgroupError: the kernel rejects an operation.
        """
        driver = self._cgroups()
        await self._enforcement.enforce_pods_limit(driver)
        async with self._turn:
            self._classes.clear()
            await self._limit_classes()
        paths = {names.pod_name(self._root, qos, uid): uid for uid, (qos, _) in self._made.items()}
        for name in await driver.missing(list(paths)):
            self._made.pop(paths[name], None)

    def parent_of(self, pod: Pod) -> str:
        return self._spelled(names.pod_name(self._root, qos_class(pod), pod.uid))

    async def exists(self, pod: Pod) -> bool:
        """Return whether the pod's cgroup exists."""
        if pod.uid in self._made:
            return True
        return not await self._cgroups().lacks(names.pod_name(self._root, qos_class(pod), pod.uid), ("memory",))

    async def ensure_pod(self, pod: Pod) -> None:
        """Create the pod's cgroup with its limits; returns early if they are already set.

        :raises CgroupError: the kernel rejects an operation.
        """
        desired = (qos_class(pod), self._pod_limits(pod))
        if self._made.get(pod.uid) == desired:
            return
        async with self._turn:
            await self._limit_classes(pod)
        name = names.pod_name(self._root, desired[0], pod.uid)
        with _DURATIONS.time(self._now, "create"):
            await self._cgroups().make(name, desired[1], mark=True)
        self._made[pod.uid] = desired

    async def limit_pod(self, pod: Pod, limit: PodLimit) -> None:
        """Set one limit of the pod's cgroup; :meth:`ensure_pod` sets the others.

        :raises CgroupError: the kernel rejects the limit.
        """
        self._made.pop(pod.uid, None)
        changes = resources.only(self._pod_limits(pod), limit)
        await self._cgroups().limit(names.pod_name(self._root, qos_class(pod), pod.uid), changes)

    async def remove_pod(self, pod_uid: str) -> None:
        """Kill the remaining processes in the pod's cgroup and remove it.

        :raises CgroupError: a process in it does not exit.
        """
        known = self._made.get(pod_uid)
        for qos in [known[0]] if known else QosClass:
            with _DURATIONS.time(self._now, "destroy"):
                await self._cgroups().remove(names.pod_name(self._root, qos, pod_uid))
        self._made.pop(pod_uid, None)
        self._computed.pop(pod_uid, None)

    async def kill_container(self, pod_uid: str, container_id: str) -> None:
        for qos in QosClass:
            await self._cgroups().kill_below(names.pod_name(self._root, qos, pod_uid), container_id)

    async def pods(self) -> Sequence[str]:
        """Return the UIDs of pods whose cgroups this agent created, also before a restart."""
        found = set(self._made)
        for qos in QosClass:
            found.update(await self._cgroups().pods(names.class_name(self._root, qos)))
        return sorted(found)

    async def ensure_processes(self, name: str, limits: ProcessLimits) -> Sequence[Path]:
        """Create a cgroup next to that of the pods; return the files to which a process writes 0 to join it.

        :raises CgroupError: the kernel rejects an operation.
        """
        driver, cgroup = self._cgroups(), names.process_name(self._root, name)
        quota = limits.cpu_millis * DEFAULT_PERIOD_US // 1000
        await driver.make(cgroup, CgroupLimits(cpu_quota=quota, memory_bytes=limits.memory_bytes, pids=limits.pids))
        return [path / "cgroup.procs" for path in driver.paths(cgroup)]

    async def remove_processes(self, name: str) -> None:
        """Kill the processes in the cgroup and remove it.

        :raises CgroupError: a process in it does not exit.
        """
        await self._cgroups().remove(names.process_name(self._root, name))

    def _pod_limits(self, pod: Pod) -> CgroupLimits:
        qos = qos_class(pod)
        policy = self._policy_for(pod.uid, *(pod.spec.init_containers or ()), *pod.spec.containers)
        known = self._computed.get(pod.uid)
        # A pod is immutable; a changed one is another object.
        if known is None or known.spec is not pod.spec or known.qos is not qos or known.policy != policy:
            limits = resources.pod_cgroup_limits(pod, policy)
            known = self._computed[pod.uid] = _PodLimits(pod.spec, qos, policy, limits)
        return known.limits

    def _cgroups(self) -> CgroupDriver:
        if self._used is None:
            self._used = self._drive(self._driver)
        return self._used

    async def _limit_classes(self, *more: Pod) -> None:
        """Apply the limits of the classes that changed since the last call."""
        uids = {pod.uid for pod in more}
        sums = self._sums.of([*[pod for pod in self._active() if pod.metadata.uid not in uids], *more])
        desired = class_limits(sums, self._policy, self._memory_percent)
        if self._policy.memory_factor is not None:
            expose_reservation(sums, self._policy.memory_reservation)
        for qos, limits in desired.items():
            if self._classes.get(qos) != limits:
                await self._limit_class(names.class_name(self._root, qos), limits, new=qos not in self._classes)
                self._classes[qos] = limits

    async def _limit_class(self, name: CgroupName, limits: CgroupLimits, *, new: bool) -> None:
        """Set the limits of a class; a memory limit below the usage is raised to the usage."""
        driver = self._cgroups()
        if new:
            await driver.make(name)
        with _DURATIONS.time(self._now, "update"):
            await self._set(driver, name, limits)

    @staticmethod
    async def _set(driver: CgroupDriver, name: CgroupName, limits: CgroupLimits) -> None:
        try:
            await driver.limit(name, limits)
        except CgroupBusy:
            await driver.limit(name, replace(limits, memory_bytes=await driver.memory_usage(name)))


class QosCgroupReconciler:
    """Reapplies the limits of the classes every minute, in case another process changed them."""

    name = "qos"

    def __init__(self, cgroups: QosCgroupManager, sleep: Callable[[float], Awaitable[None]]) -> None:
        self._cgroups, self._sleep = cgroups, sleep
        self._failing = False

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            await self._sleep(_PERIOD_SECONDS)
            try:
                await self._cgroups.update()
            except NodeAgentError as error:
                if not self._failing:
                    _log.warning("Failed to update QoS cgroup configuration", extra={"err": str(error)})
                self._failing = True
            else:
                self._failing = False
