"""Device manager: providers, reservation at admission, allocation by the worker, storage and node status."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
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
from nodeagent_plugins.devices.checkpoint import CheckpointDamaged, CheckpointData
from nodeagent_plugins.devices.holders import holders, note_unhealthy
from nodeagent_plugins.devices.inventory import Resource, expire
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
from nodeagent_plugins.devices.waiting import Masks, WaitingPods

_MIN_REPORT_SECONDS, _IDLE_SECONDS, _STALE_SECONDS = 1.0, 3600.0, 5.0
_STRICT_POLICIES = ("restricted", "single-numa-node")
_log = logging.getLogger(__name__)


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
        self._waiting = WaitingPods(context, self.reservations.resources, wait_seconds)
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
            restore_resources(self.reservations, CheckpointData(registered=error.registered), now)
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
        pods = holders(self.reservations, resource.name, devices)
        for uid in pods.union(self._waiting.waiting_for(resource.name)):
            self._context.pods.trigger_sync(uid)
        note_unhealthy(self._context, self.reservations, resource, devices)

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
        self._waiting.remove(pod.uid)
        if self.release(pod.uid):
            await self._save()

    def reserve_aligned(self, pod: Pod, container: Container, mask: frozenset[int] | None) -> None:
        """Reserve the devices of one container as the topology manager requires.

        :param mask: NUMA nodes to prefer; ``None`` for any.
        :raises DeviceError: not enough devices.
        """
        waiting = self._reserve_container(pod, container, mask)
        masks = {**self._waiting.masks_of(pod.uid), container.name: mask}
        if waiting or pod.uid in self._waiting:
            self._set_waiting(pod, waiting.union(self._waiting.resources_of(pod.uid)), masks)

    def _reserve(self, pod: Pod) -> None:
        """Reserve the devices of all containers, or record the resources that the pod waits for.

        :raises DeviceError: not enough devices; nothing is reserved.
        """
        held = pod.uid in self.reservations.allocations.pods
        masks, waiting = self._waiting.masks_of(pod.uid), set[str]()
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

    def _set_waiting(self, pod: Pod, resources: Collection[str], masks: Masks) -> None:
        if self._waiting.set(pod, resources, masks):
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
        self._waiting.remove(uid)

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
                self._waiting.remove(uid)
                if self.release(uid):
                    self._unsaved = True

    # --- DeviceManager: pods --------------------------------------------------------------------------------

    def decided(self, pod_uid: str) -> Collection[str]:
        reserved = {resource for _, resource, _ in self.reservations.allocations.of_pod(pod_uid)}
        return reserved.union(self._waiting.resources_of(pod_uid))

    async def prepare_pod(self, pod: Pod) -> None:
        containers = containers_in_order(pod)
        if not any(requested_devices(container, pod) for container in containers):
            return
        try:
            self._reserve(pod)
            self._waiting.check(pod.uid)
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

    def _has_run(self, pod: Pod) -> bool:
        """Return whether a container of the pod exists, so that the pod must not be rejected any more."""
        observed = self._context.pods.observed(pod.uid)
        return observed is not None and bool(observed.containers)

    def _reject(self, pod: Pod, error: DeviceError) -> None:
        message = str(error)
        if error.reason == DeviceError.reason:
            message = f"Allocate failed due to {error}, which is unexpected"
        self._waiting.remove(pod.uid)
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
        return self._waiting.waiting_for(resource)

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
        self._waker.wake()  # The background loop waits for the disk.

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
            if self._unsaved or self._store.unsynced:
                try:
                    if self._unsaved:
                        await self._save()
                    await self._store.sync()
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
        expired, due = expire(self._resources.values(), self._clock.now(), self._wait_seconds)
        for resource in expired:
            self._changed = self._unsaved = True
            _log.info("Endpoint became unhealthy", extra={"resourceName": resource.name, "err": resource.error})
        return self._waiting.expire(min(due, _IDLE_SECONDS))
