"""What keeps the cgroups of pods."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from nodeagent.base.metrics import Histogram
from nodeagent.contracts.runtime import LinuxResources
from nodeagent.errors import ConfigError, NodeAgentError, Problem
from nodeagent.model.pod import Container, Pod
from nodeagent.model.qos import QosClass, qos_class
from nodeagent_plugins.cgroups import names, resources
from nodeagent_plugins.cgroups.cgroupfs_driver import CgroupDriver
from nodeagent_plugins.cgroups.enforcement import Enforcement
from nodeagent_plugins.cgroups.files import CgroupBusy
from nodeagent_plugins.cgroups.hierarchy import REQUIRED_CONTROLLERS
from nodeagent_plugins.cgroups.limits import CgroupLimits
from nodeagent_plugins.cgroups.names import CgroupName, Driver
from nodeagent_plugins.cgroups.qos import ClassSums, class_limits
from nodeagent_plugins.cgroups.resources import Policy

_log = logging.getLogger(__name__)
_PERIOD_SECONDS = 60.0
_DURATIONS = Histogram(
    "cgroup_manager_duration_seconds",
    "How long it takes to create, update or destroy a cgroup.",
    ("operation_type",),
)


class NoopCgroupManager:
    """Makes nothing: pods live below *root*, or where the runtime puts them when that is empty.

    A :class:`~nodeagent.contracts.cgroups.CgroupManager` and the base of the other, which shares its limits.

    :param ask: returns the driver that the runtime uses, empty when it does not tell.
    """

    def __init__(
        self, policy: Policy, driver: Driver, root: CgroupName, ask: Callable[[], Awaitable[str]] | None = None
    ) -> None:
        self._policy, self._driver, self._root, self._ask = policy, driver, root, ask

    async def start(self) -> None:
        told = await self._ask() if self._ask is not None else ""
        if told and told != self._driver:
            _log.info("Runtime tells its cgroup driver", extra={"driver": told, "configured": str(self._driver)})
            self._driver = Driver(told)

    def parent_of(self, pod: Pod) -> str:
        return self._spelled(self._root) if self._root else ""

    async def exists(self, pod: Pod) -> bool:
        return True

    async def ensure_pod(self, pod: Pod) -> None:
        return None

    async def remove_pod(self, pod_uid: str) -> None:
        return None

    async def kill_container(self, pod_uid: str, container_id: str) -> None:
        return None

    async def pods(self) -> Sequence[str]:
        return ()

    def container_resources(self, pod: Pod, container: Container) -> LinuxResources:
        return resources.container_resources(pod, container, self._policy)

    def pod_resources(self, pod: Pod) -> LinuxResources:
        return resources.pod_resources(pod, self._policy)

    def _spelled(self, name: CgroupName) -> str:
        return names.slice_name(name) if self._driver is Driver.SYSTEMD else names.cgroupfs_path(name)


class QosCgroupManager(NoopCgroupManager):
    """Keeps a tree of cgroups: all pods, in it the QoS classes, in those the pods.

    spec: config.cgroupsPerQOS, config.cgroupRoot, config.podPidsLimit, config.qosReserved

    :param drive: makes the driver that is to be used.
    :param active: returns the admitted pods that have not ended.
    :param memory_percent: how much of the memory that a class requests the classes below cannot take.
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
        ask: Callable[[], Awaitable[str]] | None = None,
        memory_percent: int | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(policy, driver, root, ask)
        self._drive, self._enforcement, self._active = drive, enforcement, active
        self._memory_percent, self._now = memory_percent, now
        self._used: CgroupDriver | None = None
        self._sums = ClassSums()
        self._made: dict[str, tuple[QosClass, CgroupLimits]] = {}
        self._classes: dict[QosClass, CgroupLimits] = {}
        self._turn = asyncio.Lock()  # classes are shared: their cgroups and limits change one at a time

    async def start(self) -> None:
        """Make the tree, adopting what is there, and hold it and the reserved cgroups to what they may use.

        :raises ConfigError: the machine lacks a controller, systemd, or a cgroup that has to exist.
        :raises CgroupError: the kernel refuses.
        """
        await super().start()
        driver = self._cgroups()
        missing = await driver.lacks(self._root, REQUIRED_CONTROLLERS)
        if missing:
            rule = f"must exist; there is none for {', '.join(missing)}"
            raise ConfigError([Problem("configuration", "cgroupRoot", names.cgroupfs_path(self._root), rule)])
        await self._enforcement.enforce_reserved_limits(driver)
        async with self._turn:
            await driver.make(names.class_name(self._root, QosClass.GUARANTEED))
        await self.update()

    async def update(self) -> None:
        """Set the limits of the classes again, and of all pods where that failed before; notice lost cgroups of pods.

        :raises CgroupError: the kernel refuses.
        """
        driver = self._cgroups()
        await self._enforcement.enforce_pods_limit(driver)
        async with self._turn:
            self._classes.clear()
            await self._limit_classes()
        places = {names.pod_name(self._root, qos, uid): uid for uid, (qos, _) in self._made.items()}
        for name in await driver.missing(list(places)):
            self._made.pop(places[name], None)

    def parent_of(self, pod: Pod) -> str:
        return self._spelled(names.pod_name(self._root, qos_class(pod), pod.uid))

    async def exists(self, pod: Pod) -> bool:
        """Tell whether the pod's cgroup is there."""
        if pod.uid in self._made:
            return True
        return not await self._cgroups().lacks(names.pod_name(self._root, qos_class(pod), pod.uid), ("memory",))

    async def ensure_pod(self, pod: Pod) -> None:
        """Create the pod's cgroup with its limits; cheap when they are in force already.

        :raises CgroupError: the kernel refuses.
        """
        wanted = (qos_class(pod), resources.pod_cgroup_limits(pod, self._policy))
        if self._made.get(pod.uid) == wanted:
            return
        async with self._turn:
            await self._limit_classes(pod)
        name = names.pod_name(self._root, wanted[0], pod.uid)
        with _DURATIONS.time(self._now, "create"):
            await self._cgroups().make(name, wanted[1], mark=True)
        self._made[pod.uid] = wanted

    async def remove_pod(self, pod_uid: str) -> None:
        """Kill what is left in the pod's cgroup and remove it.

        :raises CgroupError: something in it does not end.
        """
        known = self._made.get(pod_uid)
        for qos in [known[0]] if known else QosClass:
            with _DURATIONS.time(self._now, "destroy"):
                await self._cgroups().remove(names.pod_name(self._root, qos, pod_uid))
        self._made.pop(pod_uid, None)

    async def kill_container(self, pod_uid: str, container_id: str) -> None:
        for qos in QosClass:
            await self._cgroups().kill_below(names.pod_name(self._root, qos, pod_uid), container_id)

    async def pods(self) -> Sequence[str]:
        """Return the UIDs of pods whose cgroups this agent made, in this run or an earlier one."""
        found = set(self._made)
        for qos in QosClass:
            found.update(await self._cgroups().pods(names.class_name(self._root, qos)))
        return sorted(found)

    def _cgroups(self) -> CgroupDriver:
        if self._used is None:
            self._used = self._drive(self._driver)
        return self._used

    async def _limit_classes(self, *more: Pod) -> None:
        """Set what changed of the classes' limits since they were set last."""
        pods = {pod.uid: pod for pod in (*self._active(), *more)}
        wanted = class_limits(self._sums.of(pods.values()), self._policy, self._memory_percent)
        for qos, limits in wanted.items():
            if self._classes.get(qos) != limits:
                await self._limit_class(names.class_name(self._root, qos), limits, new=qos not in self._classes)
                self._classes[qos] = limits

    async def _limit_class(self, name: CgroupName, limits: CgroupLimits, *, new: bool) -> None:
        """Set the limits of a class; memory that is in use already is not taken away, but no more is given."""
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
    """Keeps the limits of the classes in force, whoever else may change them."""

    name = "qos"

    def __init__(self, cgroups: QosCgroupManager, sleep: Callable[[float], Awaitable[None]]) -> None:
        self._cgroups, self._sleep = cgroups, sleep
        self._failing = False

    async def run(self) -> None:
        """Look after the classes each minute until cancelled."""
        while True:
            await self._sleep(_PERIOD_SECONDS)
            try:
                await self._cgroups.update()
            except NodeAgentError as error:
                if not self._failing:
                    _log.warning("Cgroups of QoS classes cannot be updated", extra={"err": str(error)})
                self._failing = True
            else:
                self._failing = False
