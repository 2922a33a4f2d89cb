"""Contract tests for providers of devices and device managers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import pytest

from nodeagent.contracts.device_responses import validate_response
from nodeagent.contracts.devices import DeviceManager, DeviceProvider, DeviceRequest, ProvidedDevice
from nodeagent.errors import DevicesNotReady
from nodeagent.model.extended_resources import is_extended_resource
from nodeagent.model.pod import Pod
from nodeagent.testing.clock import eventually
from nodeagent.testing.devices import FakeDeviceProvider
from nodeagent.testing.pods import make_container, make_pod


class DeviceProviderContract:
    """Contract of :class:`DeviceProvider`. Override the fixture ``provider``."""

    @pytest.fixture
    def provider(self) -> DeviceProvider:
        """The implementation to test, with at least one healthy device."""
        raise NotImplementedError

    def test_resource_is_extended(self, provider: DeviceProvider) -> None:
        assert is_extended_resource(provider.resource)

    async def test_published_devices_are_unique(self, provider: DeviceProvider) -> None:
        async with _watching(provider) as lists:
            ids = [device.id for device in lists[0]]
        assert ids and len(set(ids)) == len(ids)

    async def test_response_for_a_healthy_device_is_valid(self, provider: DeviceProvider) -> None:
        async with _watching(provider) as lists:
            healthy = [device.id for device in lists[0] if device.healthy]
            request = DeviceRequest(_pod(provider.resource), "main", provider.resource, healthy[:1])
            validate_response(await provider.allocate(request))

    async def test_devices_can_be_watched_again(self, provider: DeviceProvider) -> None:
        for _ in range(2):
            async with _watching(provider) as lists:
                assert lists


class DeviceManagerContract:
    """Contract of :class:`DeviceManager`. Override the fixture ``devices``."""

    @pytest.fixture
    def devices(self) -> DeviceManager:
        """The implementation to test, not started."""
        raise NotImplementedError

    async def test_container_gets_the_response_of_its_provider(self, devices: DeviceManager) -> None:
        provider, pod = FakeDeviceProvider(), _pod("example.com/widget")
        await devices.start()
        devices.add(provider)
        await _prepare(devices, pod)
        (request,) = provider.allocated
        assert devices.container_response(pod, pod.spec.containers[0]).envs == {"DEVICES": request.device_ids[0]}
        assert devices.decided(pod.uid) == {"example.com/widget"}
        await devices.prepare_pod(pod)
        assert len(provider.allocated) == 1

    async def test_devices_of_a_closed_provider_are_not_allocated(self, devices: DeviceManager) -> None:
        provider = FakeDeviceProvider()
        await devices.start()
        registration = devices.add(provider)
        await _prepare(devices, _pod("example.com/widget", "first"))
        registration.close()
        registration.close()
        with pytest.raises(DevicesNotReady):
            await devices.prepare_pod(_pod("example.com/widget", "second"))
        assert len(provider.allocated) == 1

    async def test_pod_without_devices_is_ready(self, devices: DeviceManager) -> None:
        await devices.start()
        pod = make_pod()
        await devices.prepare_pod(pod)
        await devices.before_start(pod, pod.spec.containers[0])
        assert not devices.decided(pod.uid) and not devices.health(pod.uid, "main")


async def _prepare(devices: DeviceManager, pod: Pod) -> None:
    """Prepare the pod, once the manager has received the devices of its provider."""
    async with asyncio.timeout(5):
        while True:
            try:
                return await devices.prepare_pod(pod)
            except DevicesNotReady:
                await asyncio.sleep(0.005)


def _pod(resource: str, name: str = "web") -> Pod:
    return make_pod(name, containers=[make_container("main", resources={"limits": {resource: "1"}})])


@asynccontextmanager
async def _watching(provider: DeviceProvider) -> AsyncIterator[list[Sequence[ProvidedDevice]]]:
    """Provide the lists that the provider publishes, once there is one."""
    lists: list[Sequence[ProvidedDevice]] = []
    task = asyncio.create_task(provider.watch(lists.append))
    try:
        await eventually(lambda: bool(lists))
        yield lists
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
