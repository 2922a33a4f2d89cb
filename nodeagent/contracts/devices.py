"""Contracts of devices that containers request as extended resources: providers and the device manager.

A provider offers the devices of one resource: a gRPC device plugin or an object of a Python plugin. Both have the same
permissions, and their devices are selected, stored and reported in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from nodeagent.base.structs import Struct
from nodeagent.contracts.device_responses import DeviceResponse
from nodeagent.model.pod import Container, Pod


class ProvidedDevice(Struct, frozen=True):
    """A device of a provider."""

    id: str
    """Unique within the resource."""
    healthy: bool = True
    """An unhealthy device is not allocated; containers that have it keep running."""
    numa_nodes: Sequence[int] = ()
    """NUMA nodes close to the device; empty if unknown."""
    message: str = ""
    """Reason of its health, for users."""


class DeviceRequest(Struct, frozen=True):
    """Devices of one resource for one container."""

    pod: Pod
    container: str
    resource: str
    device_ids: Sequence[str]


PublishDevices = Callable[[Sequence[ProvidedDevice]], None]
"""Publishes all devices of a provider, which replace the previous ones.

Raises :class:`~nodeagent.errors.DeviceError` if the list is invalid; the provider should not catch it."""


class DeviceProvider(Protocol):
    """Offers the devices of one resource."""

    resource: str
    """Extended resource, such as ``example.com/serial``."""
    endpoint: str
    """Origin for display: the socket of a device plugin or the name of a Python plugin."""
    has_preference: bool
    """True if :meth:`prefer` is called before an allocation."""
    needs_pre_start: bool
    """True if :meth:`before_start` is called before each start of a container."""

    async def watch(self, publish: PublishDevices) -> None:
        """Publish the devices, and again after each change, until cancelled.

        While it does not run, no devices are allocated. If it returns or raises, it is called again with a back-off.

        :param publish: called with each complete list.
        :raises DeviceError: the devices are unavailable.
        """
        ...

    async def allocate(self, request: DeviceRequest) -> DeviceResponse:
        """Return what a container with these devices needs; stored until its pod has terminated.

        :param request: the devices that were selected.
        :raises DeviceError: the devices cannot be used; the pod is rejected, or waits if the error is transient.
        """
        ...

    async def prefer(self, available: Sequence[str], required: Sequence[str], count: int) -> Sequence[str]:
        """Return the preferred devices of an allocation.

        :param available: the devices to select from, including the required ones.
        :param required: devices that the allocation contains in any case.
        :param count: number of devices to select, including the required ones.
        :raises DeviceError: as for :meth:`allocate`.
        """
        ...

    async def before_start(self, request: DeviceRequest) -> None:
        """Prepare the devices for a container that is started next, also when it is restarted.

        :param request: the devices of the container.
        :raises DeviceError: the container cannot be started; it is retried.
        """
        ...


class DeviceRegistration(Protocol):
    """A provider that the device manager uses."""

    def close(self) -> None:
        """Stop to use the provider; its devices become unavailable, and containers keep them. Idempotent."""
        ...


class DeviceHealth(Struct, frozen=True):
    """Health of a device that a container has."""

    device_id: str
    health: str
    """``Healthy``, ``Unhealthy``, or ``Unknown`` if the provider does not report the device."""
    message: str = ""


class DeviceResource(Struct, frozen=True):
    """State of one resource."""

    name: str
    plugin: str
    """Origin of the devices; empty if no provider is registered."""
    connected: bool
    """True if the provider reports its devices."""
    capacity: int
    healthy: int
    allocated: int
    error: str = ""
    """Reason why the provider is not connected."""


class DeviceManager(Protocol):
    """Selects and allocates devices; ``context.devices``.

    Devices are reserved at admission, which takes no call to a provider, and allocated by the pod's worker.
    """

    async def start(self) -> None:
        """Restore the allocations from before a restart; called once, before pods are admitted. Does not raise."""
        ...

    def add(self, provider: DeviceProvider) -> DeviceRegistration:
        """Use a provider; it replaces an earlier one of the same resource.

        :param provider: the provider; its ``watch`` is called.
        :raises DeviceError: the resource is not an extended resource.
        """
        ...

    def decided(self, pod_uid: str) -> Collection[str]:
        """Return the resources of a pod for which devices are reserved, or for which it waits.

        Admission does not compare them with the node's allocatable resources.

        :param pod_uid: UID of the pod.
        """
        ...

    async def prepare_pod(self, pod: Pod) -> None:
        """Allocate the devices of all containers; called before a sandbox or container is created. Idempotent.

        :param pod: the pod.
        :raises DevicesNotReady: devices are unavailable; called again, and triggered once they are available.
        """
        ...

    def container_response(self, pod: Pod, container: Container) -> DeviceResponse:
        """Return what the devices of a container add to it; see :meth:`prepare_pod`.

        :param pod: the pod.
        :param container: the container.
        """
        ...

    async def before_start(self, pod: Pod, container: Container) -> None:
        """Prepare the devices of a container that is started next.

        :param pod: the pod.
        :param container: the container.
        :raises DeviceError: the container cannot be started.
        """
        ...

    def resources(self) -> Sequence[DeviceResource]:
        """Return all resources that have or had a provider, by name."""
        ...

    def health(self, pod_uid: str, container: str) -> Mapping[str, Sequence[DeviceHealth]]:
        """Return the health of a container's devices by resource.

        :param pod_uid: UID of the pod.
        :param container: name of the container.
        """
        ...
