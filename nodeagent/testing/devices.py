"""Fakes of the device manager and of a provider of devices."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from nodeagent.contracts.device_responses import DeviceResponse
from nodeagent.contracts.devices import (
    DeviceHealth,
    DeviceProvider,
    DeviceRegistration,
    DeviceRequest,
    DeviceResource,
    ProvidedDevice,
    PublishDevices,
)
from nodeagent.model.pod import Container, Pod
from nodeagent.testing.faults import Faults


class FakeDeviceProvider(Faults):
    """A :class:`~nodeagent.contracts.devices.DeviceProvider` with the devices that a test sets.

    :param devices: IDs of healthy devices.
    """

    def __init__(self, resource: str = "example.com/widget", devices: Sequence[str] = ("w0", "w1")) -> None:
        super().__init__()
        self.resource, self.endpoint = resource, f"fake {resource}"
        self.has_preference = self.needs_pre_start = False
        self.preferred: Sequence[str] = ()
        self.response: DeviceResponse | None = None
        """Response to each allocation; by default the IDs in a variable."""
        self.allocated: list[DeviceRequest] = []
        self.starting: list[DeviceRequest] = []
        self._devices: Sequence[ProvidedDevice] = [ProvidedDevice(id) for id in devices]
        self._changed = asyncio.Event()

    def set(self, *devices: ProvidedDevice) -> None:
        """Publish other devices."""
        self._devices = devices
        self._changed.set()

    async def watch(self, publish: PublishDevices) -> None:
        await self._pass("watch")
        while True:
            self._changed.clear()
            publish(self._devices)
            await self._changed.wait()
            await self._pass("watch")

    async def allocate(self, request: DeviceRequest) -> DeviceResponse:
        await self._pass("allocate")
        self.allocated.append(request)
        return self.response or DeviceResponse({"DEVICES": ",".join(request.device_ids)})

    async def prefer(self, available: Sequence[str], required: Sequence[str], count: int) -> Sequence[str]:
        await self._pass("prefer")
        return self.preferred

    async def before_start(self, request: DeviceRequest) -> None:
        await self._pass("before_start")
        self.starting.append(request)


class FakeDevices(Faults):
    """A :class:`~nodeagent.contracts.devices.DeviceManager` with the responses and health that a test sets."""

    def __init__(self) -> None:
        super().__init__()
        self.providers: list[DeviceProvider] = []
        self.responses: dict[tuple[str, str], DeviceResponse] = {}
        """Responses by pod UID and container name."""
        self.states: dict[tuple[str, str], dict[str, list[DeviceHealth]]] = {}
        """Health by pod UID and container name, then by resource."""
        self.decided_resources: dict[str, set[str]] = {}
        """Decided resources by pod UID."""
        self.prepared: list[str] = []
        self.starting: list[tuple[str, str]] = []

    async def start(self) -> None:
        await self._pass("start")

    def add(self, provider: DeviceProvider) -> DeviceRegistration:
        self.providers.append(provider)
        return _FakeRegistration(self.providers, provider)

    def decided(self, pod_uid: str) -> Collection[str]:
        return self.decided_resources.get(pod_uid, ())

    async def prepare_pod(self, pod: Pod) -> None:
        await self._pass("prepare_pod")
        self.prepared.append(pod.uid)

    def container_response(self, pod: Pod, container: Container) -> DeviceResponse:
        return self.responses.get((pod.uid, container.name), DeviceResponse())

    async def before_start(self, pod: Pod, container: Container) -> None:
        await self._pass("before_start")
        self.starting.append((pod.uid, container.name))

    def resources(self) -> Sequence[DeviceResource]:
        return [DeviceResource(each.resource, each.endpoint, True, 0, 0, 0) for each in self.providers]

    def health(self, pod_uid: str, container: str) -> Mapping[str, Sequence[DeviceHealth]]:
        return self.states.get((pod_uid, container), {})


@dataclass(frozen=True, slots=True)
class _FakeRegistration:
    providers: list[DeviceProvider]
    provider: DeviceProvider

    def close(self) -> None:
        if self.provider in self.providers:
            self.providers.remove(self.provider)
