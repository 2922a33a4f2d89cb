"""Device manager: providers, reservation at admission, allocation by the worker, storage and node status."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from nodeagent import hookimpl
from nodeagent.base.aio.waker import Waker
from nodeagent.contracts.background import BackgroundLoop
from nodeagent.contracts.context import VolumesContext
from nodeagent.contracts.device_responses import DeviceResponse, merge_responses
from nodeagent.contracts.devices import DeviceHealth, DeviceProvider, DeviceRegistration, DeviceResource
from nodeagent.contracts.events import EventType
from nodeagent.contracts.node import NodeReport
from nodeagent.contracts.pods import KillReason, Rejection
from nodeagent.contracts.runtime import ContainerState
from nodeagent.errors import DeviceError, DevicesNotReady, RuntimeFailure
from nodeagent.model.extended_resources import containers_in_order, requested_devices
from nodeagent.model.pod import Container, Pod
from nodeagent_plugins.devices.binding import Binder
from nodeagent_plugins.devices.checkpoint import CheckpointDamaged
from nodeagent_plugins.devices.inventory import GRACE_SECONDS, Resource
from nodeagent_plugins.devices.providers import Providers
from nodeagent_plugins.devices.reservations import Reservations
from nodeagent_plugins.devices.restoration import (
    annotation,
    restore_allocations,
    restore_from_containers,
    restore_resources,
    to_checkpoint,
)
from nodeagent_plugins.devices.store import Store

_MIN_REPORT_SECONDS, _IDLE_SECONDS, _STALE_SECONDS = 1.0, 3600.0, 5.0
_STRICT_POLICIES = ("restricted", "single-numa-node")
NOT_REGISTERED = "not registered since the agent started"
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Waiting:
    """A pod that waits for providers.

    :ivar since: monotonic time of its admission.
    :ivar masks: NUMA nodes to prefer, by container.
    """

    since: float
    resources: set[str]
    masks: dict[str, frozenset[int] | None] = field(default_factory=dict)


class Devices:
    """Bundled :class:`~nodeagent.contracts.devices.DeviceManager`.

    :param directory: directory of the checkpoint.
    :param expected: resources for which pods wait even if they were never registered.
    :param wait_seconds: time that a pod waits for a provider before it is rejected.
    :param topology_policy: policy of the topology manager; with another one than ``none`` it reserves the devices.
    """

    name = "device manager"

    def __init__(
        self,
        context: VolumesContext,
        providers: Sequence[DeviceProvider],
        directory: Path,
        *,
        expected: Collection[str] = (),
        wait_seconds: float = 300.0,
        topology_policy: str = "none",
        root: Path = Path("/"),
    ) -> None:
        self._context, self._wait_seconds = context, wait_seconds
        self.aligned, self._strict = topology_policy != "none", topology_policy in _STRICT_POLICIES
        self._clock = context.clock
        self.reservations = Reservations()
        self._binder = Binder(self.reservations, context.clock)
        self._store = Store(directory, lambda: to_checkpoint(self.reservations), root)
        self._providers = Providers(context, self.reservations.resources, self._resource_changed)
        self._waiting: dict[str, _Waiting] = {}
        self._unwritten: set[str] = set()
        """UIDs of pods whose containers must not be created before the checkpoint is written."""
        self._admitting = ""
        self._waker = Waker(context.clock)
        self._changed = self._unsaved = self._check_stale = False
        now = context.clock.now()
        for resource in expected:
            self._resources[resource] = Resource(resource, now, restored=0)
        for provider in providers:
            self._providers.add(provider)

    @property
    def _resources(self) -> dict[str, Resource]:
        return self.reservations.resources

    # --- start and providers --------------------------------------------------------------------------------

    async def start(self) -> None:
        now = self._clock.now()
        try:
            data, current = await self._store.load()
        except CheckpointDamaged as error:
            _log.error(
                "Continue after failing to read checkpoint file. Device allocation info may NOT be up-to-date",
                extra={"err": str(error)},
            )
            note = f"Failed to read allocated devices: {error}"
            node = self._context.node_reference()
            self._context.recorder.record(node, EventType.WARNING, "DeviceCheckpointDamaged", note)
        else:
            restore_resources(self.reservations, data, now)
            restore_allocations(self.reservations, data, current=current)
        try:
            containers = await self._context.runtime.list_containers()
        except RuntimeFailure as error:
            _log.error("Failed to list containers with devices", extra={"err": str(error)})
        else:
            if count := restore_from_containers(self.reservations, containers, now):
                _log.warning("Restored devices from running containers", extra={"allocations": count})
        self._providers.start()

    def add(self, provider: DeviceProvider) -> DeviceRegistration:
        return self._providers.add(provider)

    def _resource_changed(self, resource: Resource, devices: set[str]) -> None:
        """Report a change of devices to the node status, to pods that have them and to pods that wait for them."""
        self._changed = self._unsaved = True
        self._waker.wake()
        pods = {
            key[0]
            for key, name, assignment in self.reservations.allocations
            if name == resource.name and not devices.isdisjoint(assignment.ids)
        }
        pods |= {uid for uid, waiting in self._waiting.items() if resource.name in waiting.resources}
        for uid in pods:
            self._context.pods.trigger_sync(uid)
        self._note_unhealthy(resource, devices)

    def _note_unhealthy(self, resource: Resource, devices: set[str]) -> None:
        """Record an event for each pod with a device that has become unhealthy."""
        for (uid, container), name, assignment in self.reservations.allocations:
            pod = self._context.pods.get(uid) if name == resource.name else None
            for id in devices.intersection(assignment.ids) if pod is not None and resource.connected else ():
                health = resource.health(id)
                if health.health == "Unhealthy" and pod is not None:
                    detail = f": {health.message}" if health.message else ""
                    note = f"Device {id} of {name} in container {container} is unhealthy{detail}"
                    self._context.recorder.record(pod.reference(), EventType.WARNING, "DeviceUnhealthy", note)

    # --- admission ------------------------------------------------------------------------------------------

    @hookimpl
    async def nodeagent_admit_pod(self, pod: Pod, active: Sequence[Pod]) -> Rejection | None:
        if not any(requested_devices(container, pod) for container in containers_in_order(pod)):
            return None
        self._admitting = pod.uid
        self.release_stale()
        self._check_stale = True
        self._waker.wake()
        if self.aligned:
            return None  # The topology manager reserves the devices.
        try:
            self._reserve(pod)
        except DeviceError as error:
            if not self._context.pods.all_sources_ready:
                return None  # Devices of pods that are not desired any more are released later; the worker reserves.
            return Rejection(error.reason, f"Allocate failed due to {error}, which is unexpected")
        return None

    @hookimpl
    async def nodeagent_pod_terminated(self, pod: Pod) -> None:
        self._waiting.pop(pod.uid, None)
        if self.release(pod.uid):
            await self._save()

    def reserve_aligned(self, pod: Pod, container: Container, mask: frozenset[int] | None) -> None:
        """Reserve the devices of one container as the topology manager requires.

        :param mask: NUMA nodes to prefer; ``None`` for any.
        :raises DeviceError: not enough devices.
        """
        waiting = self._reserve_container(pod, container, mask)
        before = self._waiting.get(pod.uid)
        masks = {**(before.masks if before is not None else {}), container.name: mask}
        if waiting or before is not None:
            self._set_waiting(pod, waiting | (before.resources if before is not None else set()), masks)

    def _reserve(self, pod: Pod) -> None:
        """Reserve the devices of all containers, or record the resources that the pod waits for.

        :raises DeviceError: not enough devices; nothing is reserved.
        """
        held = pod.uid in self.reservations.allocations.pods
        before = self._waiting.get(pod.uid)
        masks = before.masks if before is not None else {}
        waiting: set[str] = set()
        try:
            for container in containers_in_order(pod):
                waiting |= self._reserve_container(pod, container, masks.get(container.name))
        except DeviceError:
            if not held:
                self.undo(pod.uid)
            raise
        self._set_waiting(pod, waiting, masks)

    def _reserve_container(self, pod: Pod, container: Container, mask: frozenset[int] | None) -> set[str]:
        if not self.reservations.allocations.of(pod.uid, container.name):
            observed = self._context.pods.observed(pod.uid)
            run = observed.newest(container.name) if observed is not None else None
            if run is not None and run.state is ContainerState.RUNNING:
                return set()  # Started by another agent, whose allocations are unknown.
        waiting = self.reservations.reserve(pod, container, mask)
        if self._strict and mask is not None and not self.reservations.is_aligned(pod, container, mask):
            # The plugin has registered since the alignment of the pod.
            text = "Resources cannot be allocated with Topology locality"
            raise DeviceError(text, reason="TopologyAffinityError")
        return waiting

    def _set_waiting(self, pod: Pod, resources: set[str], masks: dict[str, frozenset[int] | None]) -> None:
        before = self._waiting.pop(pod.uid, None)
        if resources:
            since = before.since if before is not None else self._clock.now()
            self._waiting[pod.uid] = _Waiting(since, resources, masks)
            if before is None:
                note = f"Pod waits for the device plugins of: {', '.join(sorted(resources))}"
                self._context.recorder.record(pod.reference(), EventType.WARNING, "WaitingForDevices", note)
                self._waker.wake()

    def release(self, uid: str) -> bool:
        """Release the devices of a pod; return whether it had any."""
        released = self.reservations.allocations.release(uid)
        self._unwritten.discard(uid)
        if released:
            self._changed = True
            self._waker.wake()
        return bool(released)

    def undo(self, uid: str) -> None:
        """Release the reservations of a pod that is not admitted; allocated devices are in use until it has stopped."""
        if all(each.response is None for _, _, each in self.reservations.allocations.of_pod(uid)):
            self.release(uid)
        self._waiting.pop(uid, None)

    def release_stale(self) -> None:
        """Release the devices of pods that were rejected, or that are no longer desired and do not run."""
        pods = self._context.pods
        if not pods.all_sources_ready:
            return
        active = {pod.uid for pod in pods.active()}
        for uid in [*self.reservations.allocations.pods, *self._waiting]:
            if uid in active or uid == self._admitting:
                continue
            pod, status, observed = pods.get(uid), pods.status(uid), pods.observed(uid)
            ended = pod is None or pod.terminal or (status is not None and status.phase in ("Failed", "Succeeded"))
            if ended and (observed is None or not observed.alive):
                self._waiting.pop(uid, None)
                if self.release(uid):
                    self._unsaved = True

    # --- DeviceManager: pods --------------------------------------------------------------------------------

    def decided(self, pod_uid: str) -> Collection[str]:
        reserved = {resource for _, resource, _ in self.reservations.allocations.of_pod(pod_uid)}
        waiting = self._waiting.get(pod_uid)
        return reserved | waiting.resources if waiting is not None else reserved

    async def prepare_pod(self, pod: Pod) -> None:
        containers = containers_in_order(pod)
        if not any(requested_devices(container, pod) for container in containers):
            return
        try:
            self._reserve(pod)
            waiting = self._waiting.get(pod.uid)
            if waiting is not None:
                self._wait(waiting)
            if not self._binder.is_bound(pod):
                self._unwritten.add(pod.uid)
                await self._binder.bind(pod)
            if pod.uid in self._unwritten:
                await self._save()
                self._unwritten.discard(pod.uid)
        except DevicesNotReady:
            raise
        except DeviceError as error:
            if error.transient or self._has_run(pod) or not self._context.pods.all_sources_ready:
                raise DevicesNotReady(str(error)) from error
            self._reject(pod, error)
            raise DevicesNotReady(f"pod is rejected: {error}", reason=error.reason) from error
        except OSError as error:
            text = f'failed to write checkpoint file "{self._store.file.name}": {error}'
            raise DevicesNotReady(text) from error

    def _wait(self, waiting: _Waiting) -> None:
        """Raise the reason why a pod waits.

        :raises DevicesNotReady: until the time limit.
        :raises DeviceError: the time limit is exceeded.
        """
        names = sorted(waiting.resources)
        if self._clock.now() - waiting.since >= self._wait_seconds:
            raise DeviceError(f"no healthy devices present; cannot allocate unhealthy devices {names[0]}")
        errors = [f"{name}: {self._resources[name].error or NOT_REGISTERED}" for name in names]
        raise DevicesNotReady(f"waiting for device plugins: {'; '.join(errors)}")

    def _has_run(self, pod: Pod) -> bool:
        """Return whether a container of the pod exists, so that the pod must not be rejected any more."""
        observed = self._context.pods.observed(pod.uid)
        return observed is not None and bool(observed.containers)

    def _reject(self, pod: Pod, error: DeviceError) -> None:
        message = str(error)
        if error.reason == DeviceError.reason:
            message = f"Allocate failed due to {error}, which is unexpected"
        self._waiting.pop(pod.uid, None)
        self.release(pod.uid)
        self._context.recorder.record(pod.reference(), EventType.WARNING, error.reason, message)
        self._context.pods.kill(
            pod.uid, KillReason.REJECTED, f"Pod was rejected: {message}", status_reason=error.reason
        )

    def container_response(self, pod: Pod, container: Container) -> DeviceResponse:
        held = self.reservations.allocations.of(pod.uid, container.name)
        if not held:
            return DeviceResponse()
        merged = merge_responses(
            (resource, assignment.response)
            for resource, assignment in sorted(held.items())
            if assignment.response is not None
        )
        for conflict in merged.conflicts:
            _log.error(
                "Container has conflicting device responses",
                extra={"pod": pod.full_name, "containerName": container.name, "err": conflict},
            )
        response = merged.response
        return replace(response, annotations={**response.annotations, **annotation(held)})

    async def before_start(self, pod: Pod, container: Container) -> None:
        await self._binder.before_start(pod, container)

    def health(self, pod_uid: str, container: str) -> Mapping[str, Sequence[DeviceHealth]]:
        found: dict[str, Sequence[DeviceHealth]] = {}
        for name, assignment in self.reservations.allocations.of(pod_uid, container).items():
            resource = self._resources.get(name)
            found[name] = [
                resource.health(id) if resource is not None else DeviceHealth(id, "Unknown") for id in assignment.ids
            ]
        return found

    def resources(self) -> Sequence[DeviceResource]:
        return [
            DeviceResource(
                name,
                resource.provider.endpoint if resource.provider is not None else "",
                resource.connected,
                resource.capacity(),
                len(resource.healthy),
                len(self.reservations.allocations.used(name)),
                resource.error,
            )
            for name, resource in sorted(self._resources.items())
        ]

    def waiting(self, resource: str) -> Sequence[str]:
        """Return the UIDs of the pods that wait for a resource."""
        return [uid for uid, waiting in self._waiting.items() if resource in waiting.resources]

    # --- storage --------------------------------------------------------------------------------------------

    async def _save(self) -> None:
        """Write the checkpoint.

        :raises OSError: the file cannot be written.
        """
        self._unsaved = False
        try:
            await self._store.save()
        except OSError:
            self._unsaved = True
            raise

    # --- node -----------------------------------------------------------------------------------------------

    @hookimpl
    async def nodeagent_report_node(self) -> NodeReport | None:
        if not self._resources:
            return None
        capacity, allocatable = {}, {}
        for name, resource in self._resources.items():
            capacity[name] = str(resource.capacity())
            allocatable[name] = str(resource.allocatable(len(self.reservations.allocations.used(name))))
        return NodeReport(capacity=capacity, allocatable=allocatable)

    @hookimpl
    def nodeagent_provide_background_loops(self) -> Sequence[BackgroundLoop]:
        return [self]

    async def run(self) -> None:
        """Report changes and expire resources and waiting pods until cancelled."""
        while True:
            seconds = self._expire()
            if self._check_stale and self._is_admission_decided():
                self._check_stale, self._admitting = False, ""
                self.release_stale()
            if self._check_stale:
                seconds = min(seconds, _STALE_SECONDS)
            if self._changed:
                self._changed = False
                self._context.trigger_node_status()
            if self._unsaved:
                try:
                    await self._save()
                except OSError as error:
                    _log.error(
                        "Failed to write checkpoint file", extra={"path": str(self._store.file), "err": str(error)}
                    )
                    seconds = min(seconds, _STALE_SECONDS)
            await self._clock.sleep(_MIN_REPORT_SECONDS)
            await self._waker.wait(seconds)

    def _is_admission_decided(self) -> bool:
        """Return whether the pod that was admitted last is active, rejected or deleted, so that it can be released."""
        pods, uid = self._context.pods, self._admitting
        if not pods.all_sources_ready:
            return False
        status = pods.status(uid)
        rejected = status is not None and status.phase == "Failed"
        return rejected or pods.get(uid) is None or uid in {pod.uid for pod in pods.active()}

    def _expire(self) -> float:
        """Remove resources without provider after the grace period; return the seconds until the next one is due."""
        now, due = self._clock.now(), _IDLE_SECONDS
        for name, resource in self._resources.items():
            if resource.connected or resource.removed:
                continue
            returning = resource.restored is not None  # Its pods may wait for the complete time.
            grace = max(GRACE_SECONDS, self._wait_seconds) if returning else GRACE_SECONDS
            left = resource.disconnected_at + grace - now
            if left > 0:
                due = min(due, left)
                continue
            resource.removed, resource.restored, resource.devices = True, None, {}
            self._changed = self._unsaved = True
            _log.info("Endpoint became unhealthy", extra={"resourceName": name, "err": resource.error})
        for uid, waiting in list(self._waiting.items()):
            left = waiting.since + self._wait_seconds - now
            if left <= 0:
                self._context.pods.trigger_sync(uid)
            else:
                due = min(due, left)
        return due
