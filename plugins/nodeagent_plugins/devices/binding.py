"""Allocation of reserved devices by calls to their provider, from the worker of the pod."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from typing import TypeVar

from nodeagent.base.aio import Clock
from nodeagent.contracts.device_responses import DeviceResponse, validate_response
from nodeagent.contracts.devices import DeviceProvider, DeviceRequest
from nodeagent.errors import DeviceError, DevicesNotReady
from nodeagent.model.extended_resources import containers_in_order
from nodeagent.model.pod import Container, Pod
from nodeagent_plugins.devices.allocations import Assignment
from nodeagent_plugins.devices.inventory import Resource
from nodeagent_plugins.devices.metrics import ALLOCATION_SECONDS
from nodeagent_plugins.devices.reservations import Reservations

CALL_SECONDS = 30.0
"""Time limit of each call of a provider."""
T = TypeVar("T")
_log = logging.getLogger(__name__)


class Binder:
    """Allocates reserved devices."""

    def __init__(self, reservations: Reservations, clock: Clock) -> None:
        self._reservations, self._clock = reservations, clock

    def is_bound(self, pod: Pod) -> bool:
        """Return whether all reserved devices of the pod are allocated."""
        return all(each.response is not None for _, _, each in self._reservations.allocations.of_pod(pod.uid))

    async def bind(self, pod: Pod) -> bool:
        """Allocate the reserved devices of all containers; return whether there were any.

        :raises DevicesNotReady: a provider is not connected, or failed temporarily.
        :raises DeviceError: the devices cannot be allocated.
        """
        allocations, changed = self._reservations.allocations, False
        for container in containers_in_order(pod):
            for resource, assignment in list(allocations.of(pod.uid, container.name).items()):
                if assignment.response is None:
                    await self._bind(pod, container, self._connected(resource), assignment)
                    changed = True
        return changed

    async def before_start(self, pod: Pod, container: Container) -> None:
        """Call the providers that prepare devices before a container starts.

        :raises DeviceError: a call failed.
        """
        for name, assignment in self._reservations.allocations.of(pod.uid, container.name).items():
            resource = self._reservations.resources.get(name)
            provider = resource.provider if resource is not None else None
            if provider is None or not provider.needs_pre_start:
                continue
            request = DeviceRequest(pod, container.name, name, assignment.ids)
            try:
                await _limited(provider.before_start(request), provider)
            except DeviceError as error:
                text = f"device plugin PreStartContainer rpc failed with err: {error}"
                raise DeviceError(text, transient=True) from error

    def _connected(self, name: str) -> Resource:
        resource = self._reservations.resources.get(name)
        if resource is None or not resource.connected:
            raise DevicesNotReady(f"device plugin of {name} is not connected")
        return resource

    async def _bind(self, pod: Pod, container: Container, resource: Resource, assignment: Assignment) -> None:
        provider = resource.provider
        assert provider is not None, "a connected resource has a provider"
        reservations = self._reservations
        preferred: Sequence[str] = assignment.ids
        if provider.has_preference and len(assignment.required) < len(assignment.ids):
            selection = reservations.reselection(resource, assignment)
            available = sorted({*selection.fixed, *selection.pool})
            try:
                preferred = await _limited(provider.prefer(available, selection.fixed, selection.count), provider)
            except DeviceError as error:
                text = f"device plugin GetPreferredAllocation rpc failed with err: {error}"
                raise DeviceError(text, transient=error.transient) from error
        # Devices may have changed since the reservation.
        if preferred is not assignment.ids or not resource.healthy.issuperset(assignment.ids):
            ids = reservations.reselection(resource, assignment).pick(preferred)
            reservations.exchange(pod, container.name, resource, ids)
        _log.debug(
            "Making allocation request for device plugin",
            extra={
                "pod": pod.full_name,
                "containerName": container.name,
                "resourceName": resource.name,
                "devices": assignment.ids,
            },
        )
        request = DeviceRequest(pod, container.name, resource.name, assignment.ids)
        with ALLOCATION_SECONDS.time(self._clock.now, resource.name):
            response: DeviceResponse = await _limited(provider.allocate(request), provider)
        try:
            validate_response(response)
        except DeviceError as error:
            raise DeviceError(f"device plugin of {resource.name} returned an invalid response: {error}") from error
        assignment.response = response


async def _limited(call: Awaitable[T], provider: DeviceProvider) -> T:
    """Await a call of a provider.

    :raises DeviceError: it failed or took too long.
    """
    try:
        async with asyncio.timeout(CALL_SECONDS):
            return await call
    except TimeoutError as error:
        text = f"{provider.endpoint} did not respond within {CALL_SECONDS:g} s"
        raise DeviceError(text, transient=True) from error
    except DeviceError:
        raise
    except Exception as error:  # Python plugins may raise anything.
        raise DeviceError(f"{provider.endpoint} failed: {error!r}") from error
